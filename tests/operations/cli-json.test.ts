/** Each text of users has the same verdict in every command that takes JSON, from arguments and stdin. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect, defineTask } from "../../packages/leasehold/src/index.js";
import { checkBuild, endAll, leasehold, type Serving, serve } from "../support/processes/cli.js";
import { BROKEN_JSON, CHANGED_JSON, REPEATED_JSON } from "../support/server/json-texts.js";

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve();
});
afterAll(() => endAll());

const run = (args: readonly string[], input: string | Uint8Array = "") =>
  leasehold(args, { env: { LEASEHOLD_STORE: server.url }, input });

/** Runs a command on a text, and what its messages call the text. */
const ROADS = {
  "enqueue DATA": [(text: string) => run(["enqueue", "k", text]), "the data"],
  "enqueue -": [(text: string) => run(["enqueue", "k", "-"], text), "line 1"],
  "schedules declare": [
    (text: string) => run(["schedules", "declare", "s", "k", text, "--every", "1h"]),
    "the data",
  ],
} as const;

const texts = [
  ...REPEATED_JSON.slice(0, 1),
  ...CHANGED_JSON.slice(1, 2),
  ...CHANGED_JSON.slice(5, 10),
].filter((_, index) => index % 2 === 0);
const broken = BROKEN_JSON.filter(([text]) => /^(\{'|hello|\ufeff|'\{)/.test(text));

it.each(Object.entries(ROADS))("%s refuses the same texts", async (_, [command, what]) => {
  for (const [text, path, problem] of texts) {
    const { code, stdout, stderr } = await command(text);
    expect({ text, code, stdout }).toEqual({ text, code: 64, stdout: "" });
    expect(stderr).toContain(path === "" ? `${what} ${problem}` : `${what}: ${path} ${problem}`);
  }
  for (const [text, why] of broken) {
    const { code, stdout, stderr } = await command(text);
    expect({ text, code, stdout }).toEqual({ text, code: 64, stdout: "" });
    expect(stderr).toContain(`${what} is not JSON: `);
    expect(stderr).toContain(why);
  }
});

it("a schedule keeps no text that was meant as JSON, and a text has its own quotes", async () => {
  const declare = ["schedules", "declare", "plain", "k"];
  expect(await run([...declare, "{'id': 5}", "--every", "1h"])).toMatchObject({ code: 64 });
  expect(await run(["schedules", "show", "plain"])).toMatchObject({ code: 64 });
  expect(await run([...declare, '"ping"', "--every", "1h"])).toMatchObject({ code: 0 });
  const { stdout } = await run(["schedules", "show", "plain", "--json"]);
  expect(JSON.parse(stdout)).toMatchObject({ task: { data: "ping" } });
});

it("lines in UTF-16 or Latin-1 are named as such", async () => {
  const utf16 = Buffer.from('\ufeff{"a":1}\n', "utf16le");
  expect((await run(["enqueue", "k", "-"], utf16)).stderr).toContain(
    "line 1 is not JSON: it is UTF-16",
  );
  const latin1 = Buffer.from('1\n{"é":1}\n', "latin1");
  expect((await run(["enqueue", "k", "-"], latin1)).stderr).toContain(
    "line 2 is not JSON: it is not UTF-8",
  );
});

it("the number of a line of stdin is that in its message", async () => {
  const { stderr } = await run(["enqueue", "k", "-"], '1\n\n{"a":}\n');
  expect(stderr).toContain('line 3 is not JSON: line 3, column 6: expected a value, found "}"');
});

it.each(["9007199254740991", '[0.1,1e21,"12345678901234567890"]'])(
  "enqueue takes %s",
  async (data) => {
    const { stdout: id } = await run(["enqueue", "k", data]);
    const { stdout } = await run(["tasks", id, "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({ data: JSON.parse(data) as unknown });
  },
);

it("data that JavaScript wrote as a number beyond 2^53 reaches a server", async () => {
  const client = await connect(server.url);
  try {
    const data = { at: 2 ** 60, most: Number.MAX_VALUE };
    const { id } = await client.tasks.enqueue(defineTask("k"), data);
    expect((await client.tasks.get(id))?.data).toEqual(data);
  } finally {
    await client.close();
  }
});
