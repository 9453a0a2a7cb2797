import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { type DemoEvent, Lines } from "./events.js";

const at = (ms: number) => ({ ms, wallMs: Date.UTC(2030, 0, 1) + ms });
const grantee = { id: "id-1", token: 7, kind: "sleep", holder: "w 1", attempt: 2 };
const counts = (done: number) => ({
  pending: 0,
  running: 1,
  done,
  dead: 0,
  cancelled: 0,
  expired: 0,
});

function lines(...events: DemoEvent[]): string[] {
  const all = new Lines();
  return events.flatMap((event, index) => all.of(event, at(index)));
}

it("writes the time, the event and its values, quoted where needed", () => {
  expect(
    lines(
      { type: "ready", url: "http://127.0.0.1:1", console: null, store: "memory:x" },
      { type: "exited", name: "w", pid: 5, code: 1, said: 'a "b"\n', restartMs: 1_000 },
      { type: "exited", name: "w", pid: 5, code: "SIGKILL", said: "", restartMs: null },
      { type: "stopped" },
    ),
  ).toEqual([
    "2030-01-01T00:00:00.000Z demo.ready url=http://127.0.0.1:1 store=memory:x",
    '2030-01-01T00:00:00.001Z child.exited name=w pid=5 code=1 said="a \\"b\\"\\n" restartMs=1000',
    '2030-01-01T00:00:00.002Z child.exited name=w pid=5 code=SIGKILL said=""',
    "2030-01-01T00:00:00.003Z demo.stopped",
  ]);
});

it("reports the important events of tasks only", () => {
  const claimed = { type: "claimed", ...grantee, queue: "q", remainingMs: 5 } as const;
  const written = lines(
    { type: "task", event: { type: "enqueued", id: "i", kind: "k", queue: "q", duplicate: false } },
    { type: "task", event: { ...claimed, previousHolder: null } },
    { type: "task", event: { ...claimed, previousHolder: "v" } },
    { type: "task", event: { type: "renewed", ...grantee, remainingMs: 5 } },
    { type: "task", event: { type: "completed", ...grantee, repeated: false } },
    { type: "task", event: { type: "completed", ...grantee, repeated: true } },
    { type: "task", event: { type: "expired", ...grantee, state: "pending" } },
    {
      type: "task",
      event: { type: "refused", ...grantee, operation: "complete", reason: "taken" },
    },
  );
  const grant = 'id=id-1 holder="w 1" token=7';
  expect(written.map((line) => line.slice(25))).toEqual([
    `task.claimed ${grant} attempt=2`,
    `task.claimed ${grant} attempt=2 from=v`,
    `task.completed ${grant}`,
    `task.expired ${grant} state=pending`,
    `task.refused ${grant} operation=complete reason=taken`,
  ]);
});

it("reports counts and leaders only when they change", () => {
  const all = new Lines();
  const take = (event: DemoEvent, ms: number) =>
    all.of(event, at(ms)).map((line) => line.slice(25));
  const tasks = (done: number) =>
    `tasks pending=0 running=1 done=${done} dead=0 cancelled=0 expired=0`;
  expect(take({ type: "counts", counts: counts(1) }, 0)).toEqual([tasks(1)]);
  expect(take({ type: "counts", counts: counts(1) }, 5_000)).toEqual([]);
  expect(take({ type: "counts", counts: counts(2) }, 5_000)).toEqual([tasks(2)]);
  expect(take({ type: "counts", counts: counts(3) }, 6_000)).toEqual([]);
  const leader = { holder: "g", token: 3, remainingMs: 5 };
  expect(take({ type: "leads", leader }, 0)).toEqual(["generator.leads holder=g token=3"]);
  expect(take({ type: "leads", leader: { ...leader, remainingMs: 4 } }, 0)).toEqual([]);
  expect(take({ type: "leads", leader: null }, 0)).toEqual(['generator.leads holder="" token=""']);
  // The final counts are always written.
  expect(take({ type: "stopped" }, 6_001)).toEqual([tasks(3), "demo.stopped"]);
});

it.each([
  ["", '""'],
  ["a b", '"a b"'],
  ['a"b', '"a\\"b"'],
  ["a=b", '"a=b"'],
  ["a\u0007b", '"a\\u0007b"'],
  ["a\u202eb", '"a\\u202eb"'],
  ["a-b", "a-b"],
])("writes the value %j as %s", (message, value) => {
  const [line] = lines({ type: "log", level: "warn", message });
  expect(line?.slice(25)).toBe(`log level=warn message=${value}`);
});

it("writes the events and keys that docs/cli.md lists, and no other", () => {
  const page = readFileSync(new URL("../../../../../docs/cli.md", import.meta.url), "utf8");
  const [, section = ""] = page.split("## demo --plain\n");
  const [table = ""] = section.split("\n## ");
  const rows = table.matchAll(/^\| ((?:`[a-z.]+`(?:, )?)+) \|(.*)\|$/gm);
  const quotedIn = (text = "") => [...text.matchAll(/`([\w.]+)`/g)].map(([, word = ""]) => word);
  const documented = [...rows].flatMap(([, events, keys]) =>
    quotedIn(events).map((event) => [event, quotedIn(keys)]),
  );
  const claimed = { type: "claimed", ...grantee, queue: "q", remainingMs: 5 } as const;
  const child = { name: "w", pid: 5 };
  const all: DemoEvent[] = [
    { type: "ready", url: "u", console: "c", store: "s" },
    { type: "started", ...child, holder: "h" },
    { type: "exited", ...child, code: 1, said: "", restartMs: 1 },
    { type: "leads", leader: { holder: "g", token: 3, remainingMs: 5 } },
    { type: "task", event: { ...claimed, previousHolder: "v" } },
    { type: "task", event: { type: "completed", ...grantee, repeated: false } },
    { type: "task", event: { type: "returned", ...grantee } },
    {
      type: "task",
      event: { type: "failed", ...grantee, state: "dead", retryInMs: null, error: "e" },
    },
    { type: "task", event: { type: "expired", ...grantee, state: "pending" } },
    {
      type: "task",
      event: { type: "refused", ...grantee, operation: "complete", reason: "taken" },
    },
    { type: "counts", counts: counts(1) },
    { type: "log", level: "warn", message: "m" },
    { type: "draining" },
    { type: "stopped" },
  ];
  const written = lines(...all).map((line) => {
    const [, event = ""] = line.split(" ");
    return [event, [...line.matchAll(/ (\w+)=/g)].map(([, key = ""]) => key)];
  });
  const byName = (pairs: typeof written) => Object.fromEntries(pairs) as Record<string, string[]>;
  expect(byName(written)).toEqual(byName(documented));
});
