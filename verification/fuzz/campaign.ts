/**
 * A server in a process of its own, and all that is sent to it:
 *
 *   server process  ◀── 19 of 20 schema cases: asks the app itself (server.ts)
 *                   ◀── the twentieth, over HTTP ──┐
 *                   ◀── raw cases, over TCP ───────┤ this process
 *                   ◀── good requests, over HTTP ──┘
 *
 * It is measured before the first case, after half of them and after all, each time without what its
 * stores keep of tenants. There must be no more sockets and timers after than before. The heap must not
 * grow in the second half. It may grow in the first: compiled code takes some MiB over ten thousands of
 * cases, and the app keeps the latest entries of some lists, up to a bound.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { Agent, request as httpRequest, METHODS as NODE_METHODS } from "node:http";
import { fileURLToPath } from "node:url";
import { OpenApi } from "../../tests/support/server/openapi.js";
import { Chance } from "./chance.js";
import { bearResets, exchange, wasClosedMeanwhile } from "./connection.js";
import { type Served, serveGood } from "./good.js";
import { Judge } from "./judge.js";
import type { Holdings } from "./measure.js";
import { rawCase } from "./raw.js";
import { type FuzzRequest, Requests } from "./requests.js";
import {
  allKeys,
  type Finding,
  type FromServer,
  mediaTypeOf,
  shown,
  type ToServer,
} from "./server.js";

export interface FuzzOptions {
  readonly schema: number;
  readonly raw: number;
  readonly seed: number;
  /** Default `memory:`. */
  readonly store?: string;
  /** `schema:17` or `raw:17`: this case alone. */
  readonly only?: string | undefined;
  readonly onProgress?: (done: number, total: number) => void;
  readonly onFinding?: (finding: Finding) => void;
}

export interface FuzzResult {
  readonly schema: number;
  readonly raw: number;
  /** Schema cases that went over HTTP. */
  readonly overHttp: number;
  readonly seconds: number;
  readonly findings: number;
  /** How many answers had which status; 0: fetch refuses to send such a request. */
  readonly statuses: Readonly<Record<number, number>>;
  readonly good: Served;
  readonly before: Holdings;
  /** The same server after half of it. */
  readonly middle: Holdings;
  readonly after: Holdings;
  readonly leaks: readonly string[];
}

const OVER_HTTP = 20;
const [HTTP_AT_ONCE, RAW_AT_ONCE] = [8, 48];
/** Before the first measurement, at most. */
const WARM_UP = { schema: 2_000, raw: 200 };
/** Of garbage, and of code that is compiled late. Of 100,000 cases each may leave 130 bytes behind. */
const HEAP_SLACK_BYTES = 12 * 1024 * 1024;
const SCRIPT = fileURLToPath(new URL("./main.js", import.meta.url));

/** Cases from `from` up to but not including `to`. */
interface Span {
  readonly from: number;
  readonly to: number;
}

export async function runFuzz(options: FuzzOptions): Promise<FuzzResult> {
  const { seed, store = "memory:", onProgress, onFinding, only } = options;
  const [kind, at] = only?.split(":") ?? [];
  const span = (name: "schema" | "raw"): Span => {
    if (only === undefined) return { from: 0, to: options[name] };
    return kind === name ? { from: Number(at), to: Number(at) + 1 } : { from: 0, to: 0 };
  };
  const spans = { schema: span("schema"), raw: span("raw") };
  const total = spans.schema.to - spans.schema.from + spans.raw.to - spans.raw.from;
  let findings = 0;
  const find = (finding: Finding) => {
    findings += 1;
    onFinding?.(finding);
  };
  let done = 0;
  const statuses: Record<number, number> = {};
  const count = (of: Readonly<Record<number, number>>, cases: number) => {
    for (const [status, times] of Object.entries(of)) {
      statuses[Number(status)] = (statuses[Number(status)] ?? 0) + times;
    }
    done += cases;
    onProgress?.(done, total);
  };

  const measured = only === undefined;
  const server = new Server();
  server.on("finding", ({ finding }) => find(finding));
  try {
    const { opened } = await server.ask("opened", { open: store, measured });
    const { url, keys, document } = opened;
    const port = Number(new URL(url).port);
    const openapi = new OpenApi(document as Record<string, unknown>);
    const requests = new Requests(document, openapi.operations, keys);
    const judge = new Judge(openapi, allKeys(keys));

    const agent = new Agent({ keepAlive: true, maxSockets: HTTP_AT_ONCE });
    const overHttp = async (index: number, seedNow = seed) => {
      const asked = requests.make(new Chance(seedNow, "schema", index));
      const { status, faults } = await askOverHttp(url, agent, judge, asked);
      if (faults.length > 0) find({ cases: [`schema:${index}`], faults, request: shown(asked) });
      return status;
    };
    const raw = async (index: number, seedNow = seed) => {
      const made = rawCase(index, new Chance(seedNow, "raw", index), keys.admin);
      const { answers, faults } = await exchange(port, made);
      // Node itself answers what it cannot read, without a body.
      const judged = answers.flatMap((answer) =>
        answer.text === "" && answer.status < 500 ? [] : judge.faults(answer, undefined),
      );
      const all = [...faults, ...judged];
      if (all.length > 0) find({ cases: [`raw:${index}`], faults: all, request: shownBytes(made) });
      return answers.map(({ status }) => status);
    };

    if (measured) {
      const to = Math.min(WARM_UP.schema, options.schema);
      await server.ask("finished", { seed: seed + 1, from: 0, to, over: 0 });
      const [few, rawFew] = [to / 10, Math.min(WARM_UP.raw, options.raw / 4)];
      await pool(0, rawFew, RAW_AT_ONCE, 1, (index) => raw(index, seed + 1));
      await pool(0, few, HTTP_AT_ONCE, 1, (index) => overHttp(index, seed + 1));
    }
    const measure = async () => (await server.ask("holdings", { measure: true })).holdings;
    const before = await measure();
    server.on("done", (message) => count(message.statuses, message.done));
    let seconds = 0;
    const served: Served[] = [];
    const run = async ({ schema: { from, to }, raw: bytes }: typeof spans) => {
      const good = serveGood(url, keys.good);
      const beganMs = performance.now();
      await Promise.all([
        server.ask("finished", { seed, from, to, over: OVER_HTTP }),
        pool(Math.ceil(from / OVER_HTTP) * OVER_HTTP, to, HTTP_AT_ONCE, OVER_HTTP, async (index) =>
          count({ [await overHttp(index)]: 1 }, 1),
        ),
        pool(bytes.from, bytes.to, RAW_AT_ONCE, 1, async (index) => {
          for (const status of await raw(index)) count({ [status]: 1 }, 0);
          count({}, 1);
        }),
      ]);
      seconds += (performance.now() - beganMs) / 1_000;
      served.push(await good.stop());
      agent.destroy();
      return measure();
    };
    const half = ({ from, to }: Span) => Math.ceil((from + to) / 2);
    const middle = await run({
      schema: { ...spans.schema, to: half(spans.schema) },
      raw: { ...spans.raw, to: half(spans.raw) },
    });
    const after = await run({
      schema: { ...spans.schema, from: half(spans.schema) },
      raw: { ...spans.raw, from: half(spans.raw) },
    });
    server.say({ close: true });
    await server.ended;
    const [schema, bytes] = [spans.schema, spans.raw].map(({ from, to }) => to - from) as [
      ...[number, number],
    ];
    return {
      schema,
      raw: bytes,
      overHttp: Math.ceil(schema / OVER_HTTP),
      seconds,
      findings,
      statuses,
      good: sumOf(served),
      before,
      middle,
      after,
      leaks: measured ? leaks(before, middle, after) : [],
    };
  } finally {
    server.kill();
  }
}

function sumOf(served: readonly Served[]): Served {
  return {
    requests: served.reduce((sum, { requests }) => sum + requests, 0),
    slowestMs: Math.max(...served.map(({ slowestMs }) => slowestMs)),
    faults: served.flatMap(({ faults }) => faults),
  };
}

/**
 * What is left behind, a line each.
 * @internal
 */
export function leaks(before: Holdings, middle: Holdings, after: Holdings): string[] {
  const grown = after.heap - middle.heap;
  const more = (what: "timers" | "handles") =>
    after[what] > before[what] ? [`${what}: ${before[what]} before, ${after[what]} after`] : [];
  return [
    ...(grown > HEAP_SLACK_BYTES
      ? [`heap: ${Math.round(grown / 2 ** 20)} MiB more in the second half`]
      : []),
    ...more("timers"),
    ...more("handles"),
  ];
}

/** Cases from `from` below `to`, each `step` after the other, so many at a time. */
async function pool(
  from: number,
  to: number,
  atOnce: number,
  step: number,
  run: (index: number) => Promise<unknown>,
): Promise<void> {
  let next = from;
  const runner = async () => {
    while (next < to) {
      const index = next;
      next += step;
      await run(index);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, runner));
}

type Kept = Extract<FromServer, object>;
type With<Key extends string> = Extract<Kept, { readonly [K in Key]: unknown }>;

/** The server process; whatever is waited for rejects when it ends before that. */
class Server {
  readonly ended: Promise<number | string>;
  readonly #child: ChildProcess;
  readonly #listeners = new Map<string, (message: FromServer) => void>();
  #stderr = "";

  constructor() {
    this.#child = spawn(process.execPath, ["--expose-gc", SCRIPT, "--serve"], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#child.stderr?.on(
      "data",
      (text) => (this.#stderr = `${this.#stderr}${text}`.slice(-4_000)),
    );
    this.#child.on("message", (message: FromServer) => {
      for (const [key, listener] of this.#listeners) if (key in message) listener(message);
    });
    this.ended = new Promise((resolve) => {
      this.#child.once("exit", (code, signal) => resolve(code ?? signal ?? "?"));
    });
  }

  on<Key extends string>(key: Key, listener: (message: With<Key>) => void): void {
    this.#listeners.set(key, listener as (message: FromServer) => void);
  }

  say(message: ToServer): void {
    this.#child.send(message);
  }

  ask<Key extends string>(answer: Key, message: ToServer): Promise<With<Key>> {
    return new Promise((resolve, reject) => {
      this.on(answer, resolve);
      this.say(message);
      void this.ended.then((code) =>
        reject(new Error(`the server ended with ${code}\n${this.#stderr}`)),
      );
    });
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}

interface OverHttp {
  readonly status: number;
  readonly faults: string[];
}

async function askOverHttp(
  url: string,
  agent: Agent,
  judge: Judge,
  asked: FuzzRequest,
): Promise<OverHttp> {
  const { method, target, body, operation } = asked;
  // Node's client frames bodies of POST and PUT only.
  const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
  const headers = { ...asked.headers, ...length };
  const isHead = method === "HEAD";
  return new Promise<OverHttp>((resolve) => {
    const failed = (error: unknown) => resolve({ status: 0, faults: [`no answer: ${error}`] });
    try {
      const { hostname, port } = new URL(url);
      const asking = httpRequest(
        { hostname, port, path: target, method, agent, headers },
        (answer) => {
          const status = answer.statusCode ?? 0;
          if (status === 400 && !NODE_METHODS.includes(method)) {
            // Node's server answers methods that it does not know itself, without a body.
            answer.resume();
            resolve({ status, faults: [] });
            return;
          }
          const mediaType = mediaTypeOf(answer.headers["content-type"]);
          const judged = (text: string) =>
            resolve({
              status,
              faults: judge.faults({ status, mediaType, text }, operation, isHead),
            });
          if (mediaType === "text/event-stream") {
            asking.destroy();
            judged("");
            return;
          }
          const parts: Buffer[] = [];
          answer.on("data", (part: Buffer) => parts.push(part));
          answer.once("end", () => judged(Buffer.concat(parts).toString()));
          answer.once("error", failed);
        },
      );
      asking.on("socket", bearResets).once("error", (error) => {
        if (wasClosedMeanwhile(asking, error)) resolve(askOverHttp(url, agent, judge, asked));
        else failed(error);
      });
      asking.end(body);
    } catch {
      // Node's client refuses to send it; the raw cases have such.
      resolve({ status: 0, faults: [] });
    }
  });
}

function shownBytes({ what, pieces, end }: ReturnType<typeof rawCase>): string {
  const text = JSON.stringify(Buffer.concat(pieces).toString("latin1"));
  const cut = text.length > 800 ? `${text.slice(0, 800)}… (${text.length})` : text;
  return `${what}, then ${end}: ${cut}`;
}
