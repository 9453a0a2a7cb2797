/**
 * Watches the Lease objects of a Leasehold namespace.
 *
 *   list ──▶ its resourceVersion ──▶ watch from there ──▶ events ──▶ ended, broken, silent
 *    ▲                                  ▲                                │ from the last version seen
 *    │ 410 Gone: the server has         └────────────────────────────────┘
 *    └── dropped that version; then `resync`
 *
 * Resuming from the last version misses nothing, however often the connection breaks. The server ends a
 * stream after a minute, so one that is silent for longer is broken.
 */

import { Backoff, type Env, sleep } from "../../env/index.js";
import { LeaseholdError, type WatchEvent } from "../../lease/index.js";
import { DEFAULT_BUDGET_MS, type KubernetesApi, type LeaseList } from "./connection.js";
import { labelOf, SHARED_NAMESPACE } from "./keys.js";
import { isHeld, keyOf, type LeaseObject, NAMESPACE_LABEL, recordOf } from "./records.js";

const FOLLOW = { watch: "1", allowWatchBookmarks: "true", timeoutSeconds: "60" };
const SILENCE_MS = 75_000;
const RECONNECT = { firstMs: 100, longestMs: 5_000 };

/** Selects the objects of a namespace; the shared one includes those of other clients. */
export function selectorOf(namespace: string): Record<string, string> {
  if (namespace === SHARED_NAMESPACE) return {};
  return { labelSelector: `${NAMESPACE_LABEL}=${labelOf(namespace)}` };
}

/**
 * @param observe receives every changed object, before any watcher does
 * @throws STORE_MISCONFIGURED, CLOSED
 */
export async function* followLeases(
  api: KubernetesApi,
  namespace: string,
  observe: (object: LeaseObject, deleted: boolean) => void,
  { signal, env }: { signal: AbortSignal; env: Env },
): AsyncGenerator<WatchEvent, void, void> {
  api.checkOpen();
  // AbortSignal.any would leak: a long-lived signal keeps the remains of each watch.
  const ending = new AbortController();
  const end = () => ending.abort();
  const ends = [signal, api.closing];
  for (const each of ends) each.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  try {
    yield* untilEnded(api, namespace, observe, { signal: ending.signal, env });
  } finally {
    for (const each of ends) each.removeEventListener("abort", end);
    end();
  }
}

async function* untilEnded(
  api: KubernetesApi,
  namespace: string,
  observe: (object: LeaseObject, deleted: boolean) => void,
  { signal, env }: { signal: AbortSignal; env: Env },
): AsyncGenerator<WatchEvent, void, void> {
  const { clock, random, logger } = env;
  const selector = selectorOf(namespace);
  let version: string | null = null;
  let isNew = true;
  const backoff = new Backoff(random, RECONNECT);
  while (!signal.aborted) {
    const startMs = clock.monotonic();
    try {
      version ??= await currentVersion(api, selector, startMs + DEFAULT_BUDGET_MS);
      const query = { ...selector, ...FOLLOW, resourceVersion: version };
      const events = await api.watch(query, SILENCE_MS, signal);
      if (events && isNew) {
        isNew = false;
        yield { type: "resync" };
      }
      if (!events) version = null;
      for await (const { type, object } of events ?? []) {
        // Usually 410: the server has dropped the version.
        if (type === "ERROR") version = null;
        if (type === "ERROR") break;
        const lease = object as LeaseObject;
        version = lease.metadata.resourceVersion ?? version;
        if (type === "BOOKMARK") continue;
        observe(lease, type === "DELETED");
        const key = keyOf(lease);
        if (key?.namespace !== namespace) continue;
        if (type === "DELETED" || hasEnded(lease)) yield { type: "changed", ...key };
      }
      isNew ||= version === null;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof LeaseholdError) || !error.retryable) throw error;
      logger.debug({ err: error }, "the watch of Lease objects broke; restarting");
    }
    if (signal.aborted) return;
    // A connection that lasted shows that the network works.
    if (clock.monotonic() - startMs >= RECONNECT.longestMs) backoff.reset();
    await sleep(clock, backoff.nextMs(), { signal, background: true }).catch(() => {});
  }
}

/** Grants, renewals and new objects help no waiter. */
function hasEnded(object: LeaseObject): boolean {
  if (!isHeld(object)) return Boolean(object.spec?.acquireTime);
  return recordOf({ object, receivedMs: 0, trustFromMs: null })?.ended === "revoked";
}

async function currentVersion(
  api: KubernetesApi,
  selector: Readonly<Record<string, string>>,
  deadlineMs: number,
): Promise<string> {
  const { body } = await api.send({ verb: "list", query: { ...selector, limit: "1" }, deadlineMs });
  return (body as LeaseList).metadata.resourceVersion;
}
