/**
 * Requests that are served without the framework are answered as the framework answers them. A request without a declared
 * length is never served directly.
 */
import fc from "fast-check";
import { newLeaseId, systemEnv } from "leasehold/internal";
import { BUDGET_HEADER, toWireLeaseId } from "leasehold/internal/wire";
import { expect, test } from "vitest";
import { openTestApp } from "../../../../tests/support/server/app.js";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import {
  AcquireBody,
  plainAcquires,
  plainReleases,
  plainRenewals,
  ReleaseBody,
  RenewBody,
} from "../protocol/index.js";

const ID = "0123456789abcdef00112233445566778899aabbccddeeff";
const LEASE = { leaseId: toWireLeaseId("r", ID) };
const RIGHT = {
  acquire: { ...LEASE, holder: "h", ttlMs: 5_000 },
  renew: { ...LEASE, ttlMs: 5_000 },
  release: LEASE,
};
type Operation = keyof typeof RIGHT;
const OPERATIONS = Object.keys(RIGHT) as Operation[];

/** Two apps alike; the first serves the request directly if it is plain. */
async function openBoth(options: Parameters<typeof openTestApp>[0] = {}) {
  const apps = [await openTestApp(options), await openTestApp(options)];
  return async (operation: Operation, body: unknown, headers: Record<string, string> = {}) => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const length = `${new TextEncoder().encode(text).length}`;
    const declared = [{ "content-length": length }, {}];
    const answers = declared.map(async (more, at) => {
      const reply = await apps[at]?.ask("POST", `/v1/leases/${operation}`, text, {
        headers: { "x-request-id": "chosen", ...more, ...headers },
      });
      return { ...reply, headers: Object.fromEntries(reply?.headers ?? []) };
    });
    return Promise.all(answers);
  };
}

/** Of grants that began at different times. */
const withoutTimes = (text: string) =>
  text.replace(/"(token|remainingMs)":\d+|"expiresAt":"[^"]+"/g, "");

const wrong: readonly unknown[] = [
  "",
  "{",
  "[",
  "null",
  "1",
  "{}",
  [],
  [null],
  [[]],
  ["x"],
  [{}],
  { 0: {} },
  Array.from({ length: 1_001 }, () => RIGHT.acquire),
];
const NAMES = [
  "",
  "a",
  "a".repeat(256),
  "a".repeat(257),
  "\0",
  "a\nb",
  "\u00e9",
  "\u200b",
  "\ud800",
];
const NUMBERS = [-1, 0, 0.5, 1, 3_600_000, 3_600_001, 2 ** 31, 2 ** 53];
/** What is valid for one field or another, and what is nearly valid. */
const VALUES = fc.oneof(
  fc.constantFrom<unknown>(...NAMES, ...NUMBERS, "x".repeat(4_097)),
  fc.constantFrom(...NAMES.map((name) => toWireLeaseId(name, ID)), LEASE.leaseId.toUpperCase()),
  fc.jsonValue(),
);
const FIELDS = ["leaseId", "holder", "ttlMs", "queueMs", "metadata", "__proto__"];
/** One field of a valid request is another value. */
const CHANGES = fc.tuple(fc.constantFrom(...FIELDS), VALUES);

test("a body is read plainly only as its schema reads it", () => {
  const readers = [
    [plainAcquires, AcquireBody, RIGHT.acquire],
    [plainRenewals, RenewBody, RIGHT.renew],
    [plainReleases, ReleaseBody, RIGHT.release],
  ] as const;
  fc.assert(
    fc.property(CHANGES, ([field, value]) => {
      for (const [plain, schema, right] of readers) {
        const others = Object.entries(right).filter(([name]) => name !== field);
        // As text, because an object literal takes `__proto__` otherwise.
        const text = [...others, [field, value] as const]
          .map(([name, each]) => `${JSON.stringify(name)}:${JSON.stringify(each)}`)
          .join();
        const items: unknown = JSON.parse(`[{${text}}]`);
        const read = plain(items);
        if (read !== null) expect(schema.parse(items)).toEqual(read);
      }
    }),
    { numRuns: 3_000 },
  );
  for (const [plain, schema, right] of readers) {
    expect(plain([right])).toEqual(schema.parse([right]));
    for (const body of wrong) expect(plain(body)).toBeNull();
  }
  const waiting = [{ ...RIGHT.acquire, queueMs: 1_000, metadata: '{"build":"1"}' }];
  expect(plainAcquires(waiting)).toEqual(AcquireBody.parse(waiting));
});

test.each(OPERATIONS)("%s of right and wrong bodies is answered alike", async (operation) => {
  const send = await openBoth();
  const right = RIGHT[operation];
  const other = { ...right, leaseId: toWireLeaseId("r", newLeaseId(systemEnv.random)) };
  const bodies = [
    ...wrong,
    [right],
    [right],
    [other],
    [right, right, other],
    [{ ...right, more: 1 }],
    [{ ...right, ttlMs: 1 }],
    [{ ...right, leaseId: "x" }],
    [{ ...right, leaseId: toWireLeaseId("task:1", ID) }],
    [right, {}],
    `[${JSON.stringify(right)}]\uFEFF`,
    `\uFEFF[${JSON.stringify(right)}]`,
  ];
  for (const body of bodies) {
    const [direct, framed] = await send(operation, body);
    const text = (reply: typeof direct) => withoutTimes(JSON.stringify(reply));
    expect(text(direct), JSON.stringify(body).slice(0, 200)).toEqual(text(framed));
  }
});

test("other headers are answered alike", async () => {
  const send = await openBoth();
  const cases: Record<string, string>[] = [
    { [BUDGET_HEADER]: "x" },
    { [BUDGET_HEADER]: "0" },
    { "content-type": "text/plain" },
    { "content-type": "application/json; charset=latin1" },
    { "content-encoding": "gzip" },
    { origin: "https://evil.example" },
    { host: "localhost", "x-forwarded-for": "1.2.3.4" },
    { authorization: "Bearer wrong" },
    { "x-request-id": "not allowed" },
  ];
  for (const headers of cases) {
    const [direct, framed] = await send("acquire", [RIGHT.acquire], headers);
    const text = (reply: typeof direct) =>
      withoutTimes(JSON.stringify(reply)).replaceAll(/[0-9a-f]{16}/g, "");
    expect(text(direct), JSON.stringify(headers)).toEqual(text(framed));
  }
});

test("a closing app refuses both", async () => {
  const opened = await openTestApp();
  await opened.app.close();
  const headers = { "content-length": `${JSON.stringify([RIGHT.renew]).length}` };
  const refused = await opened.ask("POST", "/v1/leases/renew", [RIGHT.renew], { headers });
  expect([refused.status, refused.body.code]).toEqual([503, "CLOSING"]);
});

test("a request that is served directly is measured and logged", async () => {
  const recorded = recordedTelemetry();
  const logged: object[] = [];
  const note = (fields: object) => void logged.push(fields);
  const logger = { debug: note, info: note, warn: note, error: note };
  const env = { ...systemEnv, logger, telemetry: recorded.telemetry };
  const { ask } = await openTestApp({ env });
  const send = (body: unknown) =>
    ask("POST", "/v1/leases/release", body, {
      headers: { "content-length": `${JSON.stringify(body).length}` },
    });
  expect((await send([RIGHT.release])).status).toBe(200);
  expect((await send([])).status).toBe(422);
  expect(logged).toMatchObject([
    { event: "request_answered", path: "/v1/leases/release", status: 200 },
    { event: "request_refused", path: "/v1/leases/release", status: 422, code: "INVALID_REQUEST" },
  ]);
  const labels = { "http.request.method": "POST", "http.route": "/v1/leases/release" };
  expect(recorded.valuesOf("http.server.request.duration")).toMatchObject([
    [{ ...labels, "http.response.status_code": "200" }, expect.any(Number)],
    [{ ...labels, "http.response.status_code": "422" }, expect.any(Number)],
  ]);
  expect(recorded.spans.map(({ name }) => name)).toEqual(Array(2).fill("POST /v1/leases/release"));
});
