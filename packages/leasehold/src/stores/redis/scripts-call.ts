/**
 * Loads scripts into a server, and calls a script for a batch of requests; scripts.ts describes its
 * arguments.
 */

import type { Key } from "../../core/index.js";
import { invariant, zip } from "../../env/index.js";
import type { Lane, Script, Servers } from "./connection-servers.js";
import type { Keys } from "./keys.js";
import type { LEAN_SCRIPTS } from "./lean-scripts.js";
import type { SCRIPTS } from "./scripts.js";

export type ScriptName = keyof typeof SCRIPTS;
type LeanName = keyof typeof LEAN_SCRIPTS;
/** A script's reply to one request: a number if that is enough. */
export type Reply = number | Texts;
export type Texts = readonly (string | readonly string[])[];
/** A reply, and the server's time in microseconds since 1970. */
export interface Replied {
  readonly reply: Reply;
  readonly nowUs: number;
}
/** The arguments of one request, besides its key. */
export interface Arguments {
  /** The lease id; "" if the request has none. */
  readonly id: string;
  /** Arguments shared with other requests; consecutive equal lists are sent once. */
  readonly common: readonly string[];
}
/** One call of a script. */
export interface ScriptCall<Request> {
  readonly script: ScriptName;
  readonly lane: Lane;
  readonly requests: readonly Request[];
  readonly argumentsOf: (request: Request) => Arguments;
  /** Deadline by the monotonic clock. */
  readonly deadlineMs: number;
}

/** Also scripts that read or change the wait queue. */
const WITH_QUEUE: ReadonlySet<ScriptName> = new Set(["acquire", "release", "revoke"]);

export class ScriptCalls {
  constructor(
    readonly servers: Servers,
    readonly scripts: Readonly<Record<ScriptName | LeanName, Script>>,
    readonly keys: Keys,
  ) {}

  /** The reply to each request, or the reason why its script failed. */
  run<Request extends Key>(call: ScriptCall<Request>): Promise<(Replied | Error)[]> {
    const indexOf = (request: Request) => this.keys.indexOf(request);
    return byGroup(this.servers, call.requests, indexOf, (requests) =>
      this.#runOne({ ...call, requests }),
    );
  }

  async #runOne<Request extends Key>({
    script,
    lane,
    requests,
    argumentsOf,
    deadlineMs,
  }: ScriptCall<Request>): Promise<(Replied | Error)[]> {
    const { servers, keys, scripts } = this;
    const withQueue = WITH_QUEUE.has(script);
    const indexes = new Set<string>();
    const places: string[] = [];
    const lists: { readonly common: readonly string[]; requests: number }[] = [];
    const ids: string[] = [];
    for (const request of requests) {
      const index = keys.indexOf(request);
      indexes.add(index);
      places.push(`${index}:${request.resource}`);
      if (withQueue) places.push(`${index}line:${request.resource}`);
      const { id, common } = argumentsOf(request);
      const last = lists.at(-1);
      if (last && common.every((text, at) => text === last.common[at])) last.requests += 1;
      else lists.push({ common, requests: 1 });
      ids.push(id);
    }
    const head = [`${indexes.size}`, `${lists.length}`, `${lists[0]?.common.length ?? 0}`];
    const shared = lists.flatMap(({ common, requests }) => [...common, `${requests}`]);
    const args = [...head, ...shared, ...ids];
    try {
      const all = await servers.run(
        lane,
        scripts[script],
        [...indexes, ...places],
        args,
        deadlineMs,
      );
      invariant(Array.isArray(all) && all.length === requests.length + 1, "a reply per request");
      const [nowUs, ...replies] = all as [number, ...Reply[]];
      return replies.map((reply) => ({ reply, nowUs }));
    } catch (error) {
      return requests.map(() => error as Error);
    }
  }
}

/**
 * Runs one script call per group of keys: one for a single server, one per slot for a cluster.
 * @returns the results in request order
 */
export async function byGroup<Request, Result>(
  servers: Servers,
  requests: readonly Request[],
  keyOf: (request: Request) => string,
  run: (batch: readonly Request[]) => Promise<Result[]>,
): Promise<Result[]> {
  if (requests.length === 0) return [];
  if (!servers.isCluster) return run(requests);
  const groups = new Map<number, { readonly index: number; readonly request: Request }[]>();
  for (const [index, request] of requests.entries()) {
    const slot = servers.groupOf(keyOf(request));
    const group = groups.get(slot);
    if (group) group.push({ index, request });
    else groups.set(slot, [{ index, request }]);
  }
  const results = new Array<Result>(requests.length);
  const runGroup = async (group: readonly { index: number; request: Request }[]) => {
    const found = await run(group.map(({ request }) => request));
    for (const [{ index }, result] of zip(group, found)) results[index] = result;
  };
  await Promise.all([...groups.values()].map(runGroup));
  return results;
}

/** Loads each script into the first server, and returns its SHA-1. */
export async function loadScripts<Name extends string>(
  servers: Servers,
  texts: Readonly<Record<Name, string>>,
  deadlineMs: number,
): Promise<Record<Name, Script>> {
  const [node] = servers.nodes();
  const entries = Object.entries<string>(texts).map(async ([name, text]) => {
    const sha = await servers.commandTo(node, deadlineMs, "script", "LOAD", text);
    return [name, { text, sha: String(sha) }] as const;
  });
  return Object.fromEntries(await Promise.all(entries)) as Record<Name, Script>;
}
