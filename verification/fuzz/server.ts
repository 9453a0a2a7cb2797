/**
 * The process that is fuzzed. It has the server, listens on loopback, and asks the app itself in the
 * schema cases; its parent sends the raw ones, and good requests all the time.
 */
import type { Logger } from "leasehold";
import { OpenApi } from "../../tests/support/server/openapi.js";
import { Chance } from "./chance.js";
import { Judge } from "./judge.js";
import { type Holdings, holdings } from "./measure.js";
import { type FuzzRequest, Requests } from "./requests.js";
import { type Keys, openTarget, type Target } from "./target.js";

export type ToServer =
  /** `measured`: what the judge compiles must not count, and is made at once. */
  | { readonly open: string; readonly measured: boolean }
  /** Cases from `from` up to but not including `to`, but for those of `over`: the parent's. */
  | { readonly seed: number; readonly from: number; readonly to: number; readonly over: number }
  /** Without what memory keeps of tenants, but as it is where that is kept elsewhere. */
  | { readonly measure: true }
  | { readonly close: true };

export type FromServer =
  | { readonly opened: { readonly url: string; readonly keys: Keys; readonly document: object } }
  | { readonly done: number; readonly statuses: Readonly<Record<number, number>> }
  | { readonly finding: Finding }
  | { readonly finished: true }
  | { readonly holdings: Holdings };

export interface Finding {
  /** `schema:17`; several that were under way. */
  readonly cases: readonly string[];
  readonly faults: readonly string[];
  readonly request?: string;
}

/** So many at a time: enough that the stores' batches have something to gather. */
const AT_ONCE = 16;
const REPORT_EVERY = 500;

const underWay = new Set<number>();
/** What the app could not explain is in its log. */
const errors: string[] = [];
const logger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error: (fields: object, message: string) => {
    const { err } = fields as { err?: Error };
    if (errors.length < 5) errors.push(`${message} ${err?.stack ?? JSON.stringify(fields)}`);
  },
};

export function serveFuzz(): void {
  let target: Target | undefined;
  let requests: Requests;
  let judge: Judge;
  const send = (message: FromServer) => process.send?.(message);
  const crashed = (error: unknown) => {
    const cases = [...underWay].map((index) => `schema:${index}`);
    const text = error instanceof Error ? error.stack : String(error);
    send({ finding: { cases, faults: [`uncaught: ${text}`] } });
  };
  process.on("uncaughtException", crashed);
  process.on("unhandledRejection", crashed);

  process.on("message", async (message: ToServer) => {
    if ("open" in message) {
      target = await openTarget(message.open, { logger });
      const answer = await target.app.fetch(new Request("http://localhost/openapi.json"));
      const document = (await answer.json()) as object;
      const openapi = new OpenApi(document as Record<string, unknown>);
      if (message.measured) openapi.makeChecks();
      const { keys, server } = target;
      requests = new Requests(document, openapi.operations, keys);
      judge = new Judge(openapi, allKeys(keys));
      send({ opened: { url: server.url, keys, document } });
      return;
    }
    if (!target) throw new Error("open it first");
    if ("measure" in message) {
      await target.empty();
      send({ holdings: await holdings() });
    } else if ("close" in message) {
      await target.close();
      process.disconnect();
    } else {
      const { app } = target;
      await inOrder(message, async (index) => {
        const chance = new Chance(message.seed, "schema", index);
        const request = requests.make(chance);
        const { status, faults } = await ask(app, judge, request);
        if (faults.length > 0) {
          const all = [...faults, ...errors.splice(0)];
          send({ finding: { cases: [`schema:${index}`], faults: all, request: shown(request) } });
        }
        return status;
      });
      send({ finished: true });
    }
  });

  async function inOrder(
    { from, to, over }: Extract<ToServer, { seed: number }>,
    run: (index: number) => Promise<number>,
  ) {
    let next = from;
    let done = 0;
    let statuses: Record<number, number> = {};
    const report = () => {
      send({ done, statuses });
      done = 0;
      statuses = {};
    };
    const runner = async () => {
      while (next < to) {
        const index = next;
        next += 1;
        if (over > 0 && index % over === 0) continue;
        underWay.add(index);
        const status = await run(index);
        underWay.delete(index);
        statuses[status] = (statuses[status] ?? 0) + 1;
        done += 1;
        if (done >= REPORT_EVERY) report();
        // The sockets want to be served too: after all of those at once, not only after the last case.
        await new Promise(setImmediate);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, runner));
    report();
  }
}

/** In the place of a status where the request cannot be said by fetch: it went nowhere. */
const UNSAYABLE = 0;

async function ask(app: Target["app"], judge: Judge, request: FuzzRequest) {
  const { method, target, headers, body, operation } = request;
  let asked: Request;
  try {
    asked = new Request(`http://localhost${target}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body }),
    });
  } catch {
    return { status: UNSAYABLE, faults: [] };
  }
  const answer = await app.fetch(asked);
  const mediaType = mediaTypeOf(answer.headers.get("content-type"));
  if (mediaType === "text/event-stream") {
    await answer.body?.cancel();
    return {
      status: answer.status,
      faults: judge.faults({ status: answer.status, mediaType, text: "" }, operation),
    };
  }
  const text = await answer.text();
  const found = judge.faults(
    { status: answer.status, mediaType, text },
    operation,
    method === "HEAD",
  );
  const faults = answer.headers.has("x-request-id") ? found : [...found, "no request id"];
  return { status: answer.status, faults };
}

export function mediaTypeOf(header: string | null | undefined): string {
  return (header ?? "").split(";", 1)[0]!.trim();
}

export function allKeys({ admin, others, narrow, good }: Keys): string[] {
  return [admin, ...others, narrow, good];
}

/** As it can be read in a report; secrets are of a server that is gone by then. */
export function shown({ method, target, headers, body }: FuzzRequest): string {
  const text = typeof body === "string" ? body : body && Buffer.from(body).toString("latin1");
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const cut = (line: string) =>
    line.length > 600 ? `${line.slice(0, 600)}… (${line.length})` : line;
  return [`${method} ${target}`, ...lines, "", text ?? ""].map(cut).join("\n");
}
