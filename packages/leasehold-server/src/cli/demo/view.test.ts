import type { TaskEvent } from "leasehold/internal";
import { beforeEach, expect, it } from "vitest";
import { Picture } from "./picture.js";
import { render } from "./view.js";

const at = (ms: number) => ({ ms, wallMs: Date.UTC(2030, 0, 1, 12) + ms });
let picture: Picture;
beforeEach(() => {
  picture = new Picture(at(0));
  picture.take(
    { type: "ready", url: "http://127.0.0.1:4040", console: null, store: "memory:x" },
    at(0),
  );
  for (const [index, name] of ["generator-1", "worker-1", "worker-2"].entries()) {
    picture.take({ type: "started", name, pid: 100 + index, holder: `${name}-aa` }, at(0));
  }
});

const task = (event: TaskEvent, ms: number) => picture.take({ type: "task", event }, at(ms));
const grantee = (id: string, holder: string, token = 1) => ({
  id: `0000-${id}`,
  kind: "sleep",
  holder,
  token,
  attempt: token,
});
const claim = (
  id: string,
  holder: string,
  ms: number,
  token = 1,
  previousHolder: string | null = null,
) =>
  task(
    {
      type: "claimed",
      ...grantee(id, holder, token),
      queue: "q",
      remainingMs: 4_000,
      previousHolder,
    },
    ms,
  );
const show = (ms: number, columns = 100, rows = 30) => render(picture, ms, { columns, rows });
const lineOf = (lines: string[], text: string) => lines.find((line) => line.includes(text)) ?? "";

it("shows the holder, the token and the remaining time of each task", () => {
  claim("aaaaaa", "worker-1-aa", 1_000);
  claim("bbbbbb", "stranger", 1_000, 12);
  task({ type: "renewed", ...grantee("aaaaaa", "worker-1-aa"), remainingMs: 4_000 }, 2_000);
  const lines = show(2_500);
  expect(lineOf(lines, "aaaaaa")).toMatch(/^worker-1-aa +101 +aaaaaa +sleep +1 +1 +3\.5s/);
  expect(lineOf(lines, "bbbbbb")).toMatch(/^stranger +bbbbbb +sleep +12 +12 +2\.5s/);
  expect(lineOf(lines, "worker-2-aa")).toMatch(/^worker-2-aa +102 +idle/);
  expect(lineOf(show(9_000), "aaaaaa")).toContain("over");
  task({ type: "completed", ...grantee("aaaaaa", "worker-1-aa"), repeated: false }, 2_600);
  expect(lineOf(show(2_700), "aaaaaa")).toBe("");
});

it("lists handovers, refusals and crashes, newest first", () => {
  claim("aaaaaa", "worker-1-aa", 0);
  const code = { code: 1, said: "simulated crash", restartMs: 1_000 };
  picture.take({ type: "exited", name: "worker-1", pid: 101, ...code }, at(1_000));
  task({ type: "expired", ...grantee("aaaaaa", "worker-1-aa"), state: "pending" }, 4_000);
  claim("aaaaaa", "worker-2-aa", 4_100, 2, "worker-1-aa");
  const late = grantee("aaaaaa", "worker-1-aa");
  task({ type: "refused", ...late, operation: "complete", reason: "taken" }, 5_000);
  const lines = show(5_000);
  const news = lines.filter((line) => /^\d\d:/.test(line)).map((line) => line.slice(10).trim());
  expect(news).toEqual([
    "refused      complete of aaaaaa by worker-1-aa, token 1: taken",
    "handed over  aaaaaa from worker-1-aa to worker-2-aa, token 2",
    "expired      aaaaaa of worker-1-aa, token 1",
    "process      worker-1 ended (simulated crash), starts again in 1 s",
  ]);
  expect(lineOf(lines, "worker-1-aa ")).toMatch(/simulated crash/);
  // The late holder's end does not take the task from its new one.
  expect(lineOf(lines, "worker-2-aa ")).toContain("aaaaaa");
  expect(lines.at(-1)).toContain("0 done, 1 handed over, 1 refused, 1 crashes");
});

it("shows the generator, the queue and the rate", () => {
  const counts = { pending: 5, running: 2, done: 7, dead: 1, cancelled: 0, expired: 0 };
  picture.take({ type: "counts", counts }, at(0));
  expect(lineOf(show(0), "generates")).toContain("no leader yet  ready: generator-1-aa");
  const leader = { holder: "generator-1-aa", token: 9, remainingMs: 3_000 };
  picture.take({ type: "leads", leader }, at(0));
  for (const ms of [500, 1_500, 1_600]) {
    claim("cccccc", "worker-1-aa", ms);
    task({ type: "completed", ...grantee("cccccc", "worker-1-aa"), repeated: false }, ms);
  }
  const lines = show(2_000);
  expect(lineOf(lines, "pending")).toContain("pending 5   running 2   done 7   dead 1");
  expect(lineOf(lines, "generates")).toContain("generator-1-aa  token 9  1.0s left");
  expect(lineOf(lines, "per second")).toContain("1.5 per second  ▅█");
});

it.each([
  [100, 30],
  [60, 12],
  [40, 9],
  [20, 5],
  [1, 1],
])("fits a terminal of %i x %i", (columns, rows) => {
  for (let index = 0; index < 40; index += 1) {
    claim(`t${index}`.padEnd(6, "x"), "worker-1-aa", index, 1_795_171_802_123_456, "before");
  }
  const lines = show(100_000, columns, rows);
  expect(lines.length).toBeLessThanOrEqual(rows);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns);
});

it("shows how many tasks do not fit", () => {
  for (let index = 0; index < 40; index += 1) {
    claim(`t${index}`.padEnd(6, "x"), "worker-1-aa", index);
  }
  expect(show(100, 100, 30).join("\n")).toMatch(/^and \d+ more/m);
});
