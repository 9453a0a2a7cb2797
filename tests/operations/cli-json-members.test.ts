/**
 * The members of what each command prints with `--json`: `cli-json-members.txt`. Members may be added, and then appear
 * there; one that is renamed or gone breaks the scripts that read it.
 */
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import { Exit } from "../../packages/leasehold-server/src/cli/failures.js";
import { loadProgram } from "../../packages/leasehold-server/src/cli/program.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";
import { checkBuild, endAll, leasehold } from "../support/processes/cli.js";

/** As a script that an operator might have. `$enqueue` is the id that `enqueue` printed. */
const STORY = [
  "acquire r --ttl 1m --holder h",
  "renew $acquire",
  "show r",
  "ls",
  "why r",
  "pause p --reason because",
  "pause --list",
  "resume p --reason because",
  "revoke r --reason because",
  "release $acquire",
  "limits set --leases 9 --reason because",
  "limits show",
  "keys create --name k --role holder --prefix r",
  "keys list",
  "keys rotate $keys",
  "keys revoke $keys --reason because",
  "audit list",
  "audit verify",
  'enqueue kind {"a":1}',
  "tasks",
  "tasks stats",
  "tasks pause-queue q --reason because",
  "tasks resume-queue q --reason because",
  "tasks limits set kind kind --running 3 --reason because",
  "tasks limits list",
  "tasks limits remove kind kind --reason because",
  "tasks cancel $enqueue --reason because",
  "tasks $enqueue",
  "tasks retry $enqueue --reason because",
  "tasks cancel $enqueue --reason because",
  "tasks delete $enqueue --reason because",
  "schedules declare s kind --every 1h",
  "schedules list",
  "schedules show s",
  "schedules pause s --reason because",
  "schedules resume s --reason because",
  "schedules run s --reason because",
  "schedules remove s --reason because",
  "once list",
  "generate rate 2",
  "generate start",
  "generate stop",
  "generate status",
  "migrate",
  "migrate --status",
  "migrate --dry-run",
  "migrate --sql",
  "doctor --for 1ms --samples 5",
];

/** The members by which later commands name what these have made. */
const NAMED = [
  ["leaseId", "acquire"],
  ["id", "keys create"],
  ["id", "enqueue"],
] as const;

function idIn(value: unknown, name: string): string {
  const text = JSON.stringify(value);
  return new RegExp(`"${name}":"([^"]+)"`).exec(text)?.[1] ?? text;
}

const valuesOf = (text: string): unknown[] =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));

/** The paths of all members of a value, `[]` for the items of an array. */
function membersOf(value: unknown, path = ""): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => membersOf(item, `${path}[]`));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => {
    const own = path === "" ? name : `${path}.${name}`;
    return [own, ...membersOf(member, own)];
  });
}

afterEach(() => vi.restoreAllMocks());

describePostgres("with --json", () => {
  let url: string;
  beforeAll(async () => {
    checkBuild();
    const database = await freshDatabase();
    url = database.url;
    return async () => {
      await endAll();
      await database.drop();
    };
  });

  async function printed(words: readonly string[]): Promise<unknown[]> {
    // Its client stays open until the process ends.
    if (words[0] === "acquire") return valuesOf((await leasehold(words)).stdout);
    let text = "";
    const write = vi.spyOn(process.stdout, "write").mockImplementation((chunk, ...rest) => {
      text += String(chunk);
      for (const each of rest) if (typeof each === "function") each();
      return true;
    });
    const { program } = await loadProgram(words, true);
    try {
      await program.parseAsync(["node", "leasehold", ...words]);
    } catch (error) {
      if (!(error instanceof Exit)) throw new Error(words.join(" "), { cause: error });
    } finally {
      write.mockRestore();
    }
    return valuesOf(text);
  }

  it("each command prints the members that the golden file has", async () => {
    const known = new Map<string, string>();
    const lines: string[] = [];
    for (const line of STORY) {
      const words = line.split(" ").map((word) => {
        return known.get(word) ?? word;
      });
      const values = await printed([...words, "--json", "--store", url]);
      for (const [name, command] of NAMED) {
        if (line.startsWith(command)) known.set(`$${command.split(" ")[0]}`, idIn(values, name));
      }
      lines.push(
        line,
        ...new Set(values.flatMap((value) => membersOf(value)).map((name) => `  ${name}`)),
      );
    }
    await expect(
      `${lines.join("\n")}\n`,
      "If members were added: npx vitest run tests/operations/cli-json-members.test.ts --update",
    ).toMatchFileSnapshot("./cli-json-members.txt");
  });
});
