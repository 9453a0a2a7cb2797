/**
 * Sends recognisable secrets along every path, and searches all output for them. Only the answer that
 * issues a secret to its caller may contain it.
 */
import { inspect } from "node:util";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from "vitest";
import {
  type Env,
  type Logger,
  newLeaseId,
  type Random,
  randomHex,
  systemRandom,
} from "../../packages/leasehold/src/env/index.js";
import { connect, defineTask } from "../../packages/leasehold/src/index.js";
import { openTelemetry } from "../../packages/leasehold/src/instrumentation/index.js";
import { toWireLeaseId } from "../../packages/leasehold/src/wire/index.js";
import { prometheusText } from "../../packages/leasehold-server/src/cli/prometheus.js";
import { Chance } from "../../verification/fuzz/chance.js";
import { Requests } from "../../verification/fuzz/requests.js";
import { openTarget, type Target } from "../../verification/fuzz/target.js";
import { MARK } from "../../verification/fuzz/values.js";
import { freshPglite } from "../support/engines/pglite.js";
import { checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";
import { OpenApi } from "../support/server/openapi.js";

const SECRET = new RegExp(`${MARK}[0-9a-f]{26}`, "gi");
/** The secret ends of lease ids and claim ids, and the secrets of keys, are 16 random bytes. */
const random: Random = {
  ...systemRandom,
  bytes(count) {
    const bytes = systemRandom.bytes(count);
    if (count >= 16) bytes.set(Buffer.from(MARK, "hex"), count - 16);
    return bytes;
  },
};

const logged: string[] = [];
const note = (fields: object, message?: string) => {
  // As strictly as can be: what our own log would strike out, others' loggers show.
  logged.push(`${message} ${inspect(fields, { depth: 10 })} ${JSON.stringify(fields)}`);
};
const logger: Logger = { debug: note, info: note, warn: note, error: note };
const spans = new InMemorySpanExporter();
const tracerProvider = new BasicTracerProvider({
  spanProcessors: [new SimpleSpanProcessor(spans)],
});

class Asked extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}
const reader = new Asked();

let target: Target;
let env: Partial<Env>;
beforeAll(async () => {
  const meterProvider = new MeterProvider({ readers: [reader] });
  env = { random, logger, telemetry: openTelemetry({ tracerProvider, meterProvider }) };
  target = await openTarget("memory:", env, {
    namespace: "fuzz",
    metrics: async () => prometheusText((await reader.collect()).resourceMetrics),
    onLeaseEvent: (event) => note(event, "lease"),
    onTaskEvent: (event) => note(event, "task"),
  });
});
afterAll(async () => {
  await target.close();
  await tracerProvider.shutdown();
});
afterEach(() => endAll());

function findIn(what: string, text: string): string[] {
  return [...text.matchAll(SECRET)].map(
    ([found], index) => `${what}: ${found} ${index === 0 ? text.slice(0, 600) : ""}`,
  );
}

/** In what the server logged, and in its traces. */
function findInLogs(): string[] {
  const traced = spans
    .getFinishedSpans()
    .map((span) => inspect([span.name, span.attributes, span.events, span.status], { depth: 5 }));
  const found = [
    ...logged.flatMap((line) => findIn("log", line)),
    ...traced.flatMap((span) => findIn("trace", span)),
  ];
  logged.length = 0;
  spans.reset();
  return found;
}

/** Members of the answers that issue a secret to its caller. */
const GIVEN = /"(leaseId|key)":"[^"]*"/g;
const GIVES =
  /^(POST \/v1\/locks\/acquire|POST \/api\/leases|POST \/v1\/leases\/acquire|POST \/api\/tasks\/next|POST \/v1\/keys|POST \/v1\/keys\/\{id\}\/rotate)$/;

async function ask(method: string, path: string, body?: object | string, key = target.keys.admin) {
  const answer = await target.app.fetch(
    new Request(`http://localhost${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    }),
  );
  return { status: answer.status, text: await answer.text() };
}

it("keeps secrets out of the answers to all requests, right and wrong, and out of the logs and traces", async () => {
  const document = JSON.parse((await ask("GET", "/openapi.json")).text) as Record<string, unknown>;
  const { operations } = new OpenApi(document);
  const requests = new Requests(document, operations, target.keys);
  const found: string[] = [];
  let planted = 0;
  for (let index = 0; index < 2_000; index += 1) {
    const {
      method,
      target: path,
      headers,
      body,
      operation,
    } = requests.make(new Chance(41, "schema", index));
    let request: Request;
    try {
      request = new Request(`http://localhost${path}`, {
        method,
        headers,
        ...(body === undefined ? {} : { body }),
      });
    } catch {
      continue;
    }
    if (`${path} ${body} ${headers["authorization"]}`.includes(MARK)) planted += 1;
    const answer = await target.app.fetch(request);
    if (answer.headers.get("content-type")?.startsWith("text/event-stream")) {
      await answer.body?.cancel();
      continue;
    }
    const text = await answer.text();
    const name = operation ? `${method} ${operation.template}` : `${method} ${path.split("?")[0]}`;
    const shown = answer.ok && GIVES.test(name) ? text.replaceAll(GIVEN, "") : text;
    found.push(
      ...findIn(`${method} ${path}`, shown),
      ...findIn("headers", inspect([...answer.headers])),
    );
  }
  expect(planted).toBeGreaterThan(600);
  // They came as far as the log, and were struck out of it.
  expect(logged.some((line) => line.includes("[lease]"))).toBe(true);
  expect([...found, ...findInLogs()]).toEqual([]);
});

/** Routes that only read: lists, histories, the audit, metrics, the document. */
const READ = [
  "/v1/schedules",
  "/v1/locks",
  "/v1/leases",
  "/api/leases",
  "/api/leases/active",
  "/api/leases/expired",
  "/api/leases/released",
  "/api/leases/revoked",
  "/api/leases/renewed",
  "/api/tasks",
  "/api/tasks/started",
  "/api/tasks/leases",
  "/api/tasks/counts",
  "/v1/keys",
  "/v1/limits",
  "/v1/audit",
  "/v1/audit/verify",
  "/metrics",
  "/openapi.json",
  "/healthz",
];

it("keeps secrets out of lists, events, the audit, the history and metrics", async () => {
  const streaming = await target.app.fetch(
    new Request("http://localhost/v1/events", {
      headers: { authorization: `Bearer ${target.keys.admin}` },
    }),
  );
  const claimId = newLeaseId(random);
  const resource = "seen";
  const leaseId = toWireLeaseId(resource, newLeaseId(random));
  expect(
    (await ask("POST", "/v1/locks/acquire", { resource, ownerId: "me", leaseId })).status,
  ).toBe(200);
  await ask("POST", `/v1/locks/${leaseId}/renew`, { ttlMs: 2_000 });
  const revoked = [{ resource, free: "now", reason: "canary" }];
  expect((await ask("POST", "/v1/leases/revoke", revoked)).status).toBe(200);
  await ask("POST", "/v1/locks/acquire", { resource, ownerId: "other" });
  await ask("POST", "/api/tasks", { task_data: 1, queue: "seen" });
  const { text } = await ask("POST", "/api/tasks/next", {
    processor: "p",
    queues: ["seen"],
    claimId,
  });
  const [task] = (JSON.parse(text) as { tasks: { id: string; leaseId: string }[] }).tasks;
  const made = await ask("POST", "/v1/keys", { name: "n", role: "viewer", reason: "because" });
  const { id, key } = JSON.parse(made.text) as { id: string; key: string };
  await ask("POST", `/v1/keys/${id}/rotate`, {});
  await ask("DELETE", `/v1/keys/${id}`);
  // The lease id of a claim is made from the claim's id: it does not begin with the mark.
  const own = [leaseId, task!.leaseId, claimId, key.slice(0, -6)].map((text) => text.slice(-32));
  const found: string[] = [];
  const look = (what: string, text: string) => {
    const plain = own
      .filter((secret) => text.includes(secret))
      .map((secret) => `${what}: ${secret}`);
    found.push(...plain, ...findIn(what, text));
  };
  for (const path of READ) {
    const { status, text: answer } = await ask("GET", path);
    expect([path, status]).toEqual([path, 200]);
    look(path, answer);
  }
  look("task", (await ask("GET", `/api/tasks/${task!.id}`)).text);
  const history = JSON.parse((await ask("GET", "/api/leases")).text) as {
    leases: { id: string }[];
  };
  for (const lease of history.leases ?? [])
    look("lease", (await ask("GET", `/api/leases/${lease.id}`)).text);
  const reader = streaming.body!.getReader();
  const { value } = await reader.read();
  look("events", Buffer.from(value as Uint8Array).toString());
  await reader.cancel();
  for (const line of logged) look("log", line);
  expect([...found, ...findInLogs()]).toEqual([]);
});

it("keeps secrets out of what the client library and its worker log and throw", async () => {
  const { url } = target.server;
  const { good, narrow } = target.keys;
  const thrown: unknown[] = [];
  const fails = async (work: () => Promise<unknown>) => {
    try {
      await work();
    } catch (error) {
      thrown.push(error);
      return;
    }
    throw new Error("it should have failed");
  };
  const withKey = (key: string) => url.replace("//", `//${key}@`);
  // An unknown key, sent to the server, to a closed port and in invalid URLs.
  const none = `lh_${randomHex(random, 6)}_${randomHex(random, 16)}`;
  const brief = { env, connectTimeoutMs: 200 };
  await fails(() => connect(withKey(none), brief));
  await fails(() => connect(`http://${none}@127.0.0.1:2`, brief));
  await fails(() => connect(`http://${none}@127.0.0.1:x/`, brief));
  await fails(() => connect(`nothing://${none}@127.0.0.1/`, brief));
  await fails(() => connect(`postgres://user:${none}@127.0.0.1:1/db`, brief));
  await fails(() => connect("memory:", { ...brief, tasks: withKey(none) }));

  const leases = await connect(withKey(good), { env });
  const other = await connect(withKey(good), { env, holder: "other" });
  const lease = await leases.acquire("canary", { ttlMs: 1_000 });
  await fails(() => other.acquire("canary", { waitMs: 0 }));
  const lost = new Promise((resolve) => lease.onLost(resolve));
  const revoked = [{ resource: "canary", free: "now", reason: "canary" }];
  expect((await ask("POST", "/v1/leases/revoke", revoked, good)).status).toBe(200);
  thrown.push(await lost);
  const shown = [lease, leases].map((each) => `${inspect(each, { depth: 3 })} ${String(each)}`);
  await leases.close();
  await fails(() => leases.acquire("canary"));
  await other.close();

  const tasksClient = await connect(withKey(narrow), { env });
  const tasks = tasksClient.tasks;
  const failing = defineTask("failing");
  const { id } = await tasks.enqueue(failing, 1, { maxAttempts: 1 });
  const tried = new Promise<void>((resolve) => {
    tasks.work([
      failing.handle(async (_, context) => {
        shown.push(inspect(context, { depth: 3 }));
        resolve();
        throw new Error("no");
      }),
    ]);
  });
  await tried;
  await tasksClient.close();
  logged.push((await ask("GET", `/api/tasks/${id}`, undefined, narrow)).text);
  const texts = thrown.map((error) => `${inspect(error, { depth: 6 })} ${JSON.stringify(error)}`);
  expect([...texts, ...shown].flatMap((each) => findIn("shown", each))).toEqual([]);
  expect(findInLogs()).toEqual([]);
});

it("keeps secrets out of what the command line prints and logs", async () => {
  checkBuild();
  const { cli, url } = await serve("memory:canary", ["--log-level", "trace"]);
  const all: string[] = [];
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await leasehold([...args, "--store", url, "--verbose"]);
    all.push(stdout, stderr);
    return code;
  };
  const secrets: string[] = [];
  const acquired = await leasehold(["acquire", "r", "--json", "--store", url]);
  const { leaseId } = JSON.parse(acquired.stdout) as { leaseId: string };
  secrets.push(leaseId.slice(-32));
  const wrong = toWireLeaseId("r", newLeaseId(random));
  // It prints the id again, because its caller already has it.
  const renewed = await leasehold(["renew", leaseId, "--ttl", "10m", "--store", url, "--verbose"]);
  expect(renewed.code).toBe(0);
  all.push(renewed.stdout.replace(`LEASE_ID=${leaseId}`, ""), renewed.stderr);
  await run("renew", wrong);
  await run("release", wrong);
  await run("release", "no lease id");
  await run("acquire", "r");
  await run("ls", "--json");
  await run("show", "r", "--json");
  expect(await run("revoke", "r", "--at", "now", "--reason", "canary")).toBe(0);
  await run("renew", leaseId);
  await run("release", leaseId);
  all.push((await leasehold(["run", "r", "--store", url, "--verbose", "--", "env"])).stdout);
  const made = await fetch(`${url}/v1/keys`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name: "n", role: "admin" }),
  });
  const { key } = (await made.json()) as { key: string };
  secrets.push(key.split("_")[2]!);
  // From now on, and within seconds, every request needs one.
  await cli.until(({ err }) => err.find((line) => line.includes('"keys_required"')));
  const withKey = url.replace("//", `//${key}@`);
  // The checksum of one key in 62 ends with an x.
  const other = key.endsWith("x") ? "y" : "x";
  const wrongKey = url.replace("//", `//${key.slice(0, -1)}${other}@`);
  const asked = [withKey, wrongKey, `http://${key}@127.0.0.1:2`];
  const ended = await Promise.all(asked.map((store) => leasehold(["ls", "--store", store])));
  expect(ended.map(({ code }) => code === 0)).toEqual([true, false, false]);
  for (const { stdout, stderr } of ended) all.push(stdout, stderr);
  const { stdout, stderr } = await cli.end("SIGTERM");
  all.push(stdout, stderr);
  const found = all.flatMap((text) => [
    ...findIn("printed", text),
    ...secrets.filter((secret) => text.includes(secret)).map((secret) => `${secret} in ${text}`),
  ]);
  expect(found).toEqual([]);
});

it("keeps the text of a key out of what is listed and exported of it", async () => {
  checkBuild();
  const { directory, remove } = await freshPglite();
  onTestFinished(remove);
  const store = `pglite:${directory}`;
  const run = (...args: string[]) => leasehold([...args, "--store", store]);
  const made = await run("keys", "create", "--name", "n", "--role", "admin", "--json");
  const secret = /lh_[0-9a-f]{12}_([0-9a-f]{32})/.exec(made.stdout)?.[1] ?? "none";
  for (const args of [
    ["keys", "list"],
    ["audit", "list"],
    ["audit", "export"],
  ]) {
    const { code, stdout, stderr } = await run(...args);
    expect([args, code, stderr]).toEqual([args, 0, stderr]);
    expect(stdout).not.toBe("");
    expect(stdout + stderr).not.toContain(secret);
  }
});
