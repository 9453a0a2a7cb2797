/** Loads scripts into a server, and calls them for the keys of each cluster slot. */
import { zip } from "../../env/index.js";
import type { Script, Servers } from "./connection-servers.js";
import type { Keys } from "./keys.js";
import { LEAN_SCRIPTS } from "./lean-scripts.js";
import { SAVE } from "./lease-save.js";
import { COLLECT, LOAD, PROBE } from "./scripts.js";

/** All scripts, by their names. */
export const SCRIPTS = {
  ...LEAN_SCRIPTS,
  load: LOAD,
  save: SAVE,
  collect: COLLECT,
  probe: PROBE,
};

export interface ScriptCalls {
  readonly servers: Servers;
  readonly scripts: Readonly<Record<keyof typeof SCRIPTS, Script>>;
  readonly keys: Keys;
}

/**
 * Runs one script call per group of keys: one for a single server, one per slot for a cluster.
 * @returns the results in request order
 */
export function byGroup<Request, Result>(
  servers: Servers,
  requests: readonly Request[],
  keyOf: (request: Request) => string,
  run: (batch: readonly Request[]) => Promise<Result[]>,
): Promise<Result[]> {
  if (requests.length === 0) return Promise.resolve([]);
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
  return Promise.all([...groups.values()].map(runGroup)).then(() => results);
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
