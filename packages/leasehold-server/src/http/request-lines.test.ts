/** The lines of the log about requests: what each has, and which are left out. */
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import type { Caller } from "./auth/caller.js";
import { ProblemError } from "./problems.js";
import { type Answered, RequestLog } from "./request-log.js";

const CALLER: Caller = { namespace: "a", role: "viewer", prefixes: [], actor: "key:1", keyId: "1" };
const REFUSED = new ProblemError("INVALID_REQUEST", "wrong");

function open() {
  const lines: Record<string, unknown>[] = [];
  const at = (level: string) => (fields: object) => void lines.push({ level, ...fields });
  const [debug, info, warn, error] = [at("debug"), at("info"), at("warn"), at("error")];
  const log = new RequestLog(manualEnv({ logger: { debug, info, warn, error } }));
  const note = (change: Partial<Answered> = {}, times = 1, durationMs = 0) => {
    const requestId = `q${lines.length}`;
    const request = { requestId, method: "GET", path: "/v1/locks", status: 422, caller: CALLER };
    const answered = { ...request, error: REFUSED, ...change };
    for (let n = 0; n < times; n += 1) log.note(answered, durationMs);
  };
  return { log, lines, note };
}

it("says of a request who sent it, what became of it, and how long it took", () => {
  const { lines, note } = open();
  note({ requestId: "q1" }, 1, 12.6);
  note({ requestId: "q2", status: 200, error: undefined }, 1, 0.4);
  note({ requestId: "q3", caller: { ...CALLER, actor: "anyone", keyId: null } });
  note({ requestId: "q4", caller: undefined, status: 401 });
  const asked = { method: "GET", path: "/v1/locks" };
  const refused = { event: "request_refused", code: "INVALID_REQUEST", ...asked };
  expect(lines).toEqual([
    { level: "info", ...refused, requestId: "q1", status: 422, durationMs: 13, actor: "key:1" },
    {
      level: "debug",
      event: "request_answered",
      ...asked,
      requestId: "q2",
      status: 200,
      durationMs: 0,
      actor: "key:1",
    },
    { level: "info", ...refused, requestId: "q3", status: 422, durationMs: 0 },
    { level: "info", ...refused, requestId: "q4", status: 401, durationMs: 0 },
  ]);
});

it("leaves out no line of another method, status, key, path or tenant", () => {
  const { lines, note } = open();
  note({}, 12);
  expect(lines).toHaveLength(10);
  const others: Partial<Answered>[] = [
    { method: "POST" },
    { status: 403 },
    { caller: { ...CALLER, actor: "key:2", keyId: "2" } },
    { path: "/v1/leases" },
    { caller: { ...CALLER, namespace: "b" } },
  ];
  for (const other of others) note(other);
  expect(lines).toHaveLength(10 + others.length);
});

it("leaves out no unexpected error of a caller, and says how many others when it closes", () => {
  const { log, lines, note } = open();
  const err = new Error("bug");
  note({ status: 500, error: err }, 150);
  expect(lines.filter(({ level }) => level === "error")).toHaveLength(150);
  expect(lines[0]).toMatchObject({ event: "request_failed", code: "INTERNAL", err });
  lines.length = 0;
  note({}, 12);
  note({ caller: { ...CALLER, namespace: "b" } }, 13);
  log.close();
  expect(lines.filter(({ event }) => event === "requests_left_out")).toEqual([
    { level: "warn", event: "requests_left_out", namespace: "a", leftOut: 2 },
    { level: "warn", event: "requests_left_out", namespace: "b", leftOut: 3 },
  ]);
});
