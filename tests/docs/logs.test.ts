/** docs/logs.md has each event of the log and no other, and docs/warnings.md each code of a warning. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { WARNING_CODES } from "../../packages/leasehold/src/env/warnings.js";
import { logLeaseEvent, logTaskEvent } from "../../packages/leasehold-server/src/cli/events-log.js";
import type { LeaseEvent } from "../../packages/leasehold-server/src/http/index.js";
import { loggedBy } from "../support/documents/logged.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");

const sourcesOf = (name: string) => {
  const folder = `packages/${name}/src`;
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"))
    .map((path) => ({ path, ...loggedBy(path, read(join(folder, path))) }));
};
const library = sourcesOf("leasehold");
const server = sourcesOf("leasehold-server");

/** The messages that a wrapper passes on: those of its callers are read where they are written. */
const PASSED_ON = new Set(["election/shards.ts", "renewal-thread/renewals.ts"]);

describe("docs/logs.md", () => {
  const rows = [
    ...read("docs/logs.md").matchAll(/^\| (`\w+`(?:, `\w+`)*) \| (?:debug|info|warn|error)/gm),
  ];
  const documented = rows.flatMap(([, names = ""]) => names.replaceAll("`", "").split(", "));

  it("has each event of the sources, and no other", () => {
    const events = new Set([library, server].flat().flatMap(({ events: own }) => [...own]));
    expect(events.size).toBeGreaterThan(15);
    for (const event of namedByType()) events.add(event);
    expect(documented.toSorted()).toEqual([...events].sort());
  });
});

describe("docs/warnings.md", () => {
  const messages = library.flatMap(({ path, warnings }) =>
    warnings.map((warning) => ({ path, ...warning })),
  );

  it("has a code for every warning of the library", () => {
    expect(messages.length).toBeGreaterThan(40);
    const without = messages.filter(({ path, message }) =>
      message === null ? !PASSED_ON.has(path) : !(message in WARNING_CODES),
    );
    expect(without).toEqual([]);
  });

  it("has no code that nothing warns with", () => {
    const texts = library.map(({ path }) => read(`packages/leasehold/src/${path}`));
    const written = (message: string) =>
      texts.filter((text) => text.includes(JSON.stringify(message))).length;
    // Once in the table of codes, and once where it is logged.
    expect(Object.keys(WARNING_CODES).filter((message) => written(message) < 2)).toEqual([]);
  });

  it("has a row for each code, and no other", () => {
    const rows = [...read("docs/warnings.md").matchAll(/^\| `(LEASEHOLD_W_\w+)` \|/gm)];
    const codes = new Set<string>([...Object.values(WARNING_CODES), "LEASEHOLD_W_LOGGED"]);
    expect(rows.map(([, code]) => code)).toEqual([...codes].sort());
  });
});

describe("what a source logs", () => {
  const judge = (source: string) => {
    const { warnings, events } = loggedBy("a.ts", source);
    return { messages: warnings.map(({ message }) => message), events: [...events] };
  };
  it.each([
    ["a warning", 'logger.warn({ at: "x" }, "a");', ["a"]],
    ["an error of a member", 'this.#env.logger?.error({}, "a");', ["a"]],
    ["either of two", 'const B = "b"; log.warn({}, ok ? "a" : B);', ["a", "b"]],
    ["a message that is computed", 'logger.warn({}, a + "b");', [null]],
    ["nothing else", 'logger.info({}, "a"); console.warn("b", "c"); outcome.error({}, "d");', []],
  ])("%s", (_, source, messages) => {
    expect(judge(source).messages).toEqual(messages);
  });

  it("an event, wherever its fields are written, but no notice", () => {
    const source =
      'const fields = { event: "a" }; logger.warn(fields, "a"); logger.error({ event: "b" }, "b");' +
      'run({ event: "c_d" }); notify({ event: "waiting" });';
    expect(judge(source).events).toEqual(["a", "b", "c_d"]);
  });
});

/** The compiler says if one is missing. */
const LEASE_EVENTS: Readonly<Record<LeaseEvent["type"], true>> = {
  acquired: true,
  held: true,
  renewed: true,
  lost: true,
  released: true,
  notHeld: true,
  revoked: true,
  failed: true,
};
type TaskEvent = Parameters<typeof logTaskEvent>[1];
const TASK_EVENTS: Readonly<Record<TaskEvent["type"], true>> = {
  enqueued: true,
  claimed: true,
  renewed: true,
  completed: true,
  failed: true,
  returned: true,
  refused: true,
  expired: true,
  cancelled: true,
  late: true,
  retried: true,
};

/** Events whose names follow from their types: what the server logs of each. */
function namedByType(): Set<string> {
  const names = new Set<string>();
  const note = ({ event }: { event?: unknown }) => void names.add(String(event));
  const logger = { debug: note, info: note, warn: note, error: note };
  const replaced = { holder: "h", grantId: "g", token: 1, state: "expired" };
  for (const type of Object.keys(LEASE_EVENTS)) {
    const event = { type, tookMs: 1, ttlMs: 1, replaced, operation: "renew", message: "" };
    logLeaseEvent(logger, event as unknown as LeaseEvent);
  }
  for (const type of Object.keys(TASK_EVENTS)) logTaskEvent(logger, { type } as TaskEvent);
  return names;
}
