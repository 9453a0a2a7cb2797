/**
 * Reads from the /metrics of a running server, worker or program what a TTL depends on: how late its timers
 * fire, how late grants are renewed, how long renewals take, and how much time they leave.
 */

import { type Diagnosis, systemClock, systemEnv, withTimeout } from "leasehold/internal";
import { reachServers } from "leasehold/internal/open";

const TIMEOUT_MS = 5_000;
/** The share of events that a TTL should survive. */
const SHARE = 0.999;

const WRONG_ADDRESS = "check the address, or leave --metrics out";

/** All figures are upper bounds: those of the histogram's buckets. */
export interface Distribution {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
}

/** Null where nothing was recorded. */
export interface Production {
  readonly source: string;
  readonly renewal: Distribution | null;
  /** How much later than after a third of its TTL a grant was renewed. */
  readonly delay: Distribution | null;
  readonly stall: Distribution | null;
  /** A lower bound of the time that 999 of 1,000 renewals had left; of fewer renewals, all. */
  readonly leastLeftMs: number | null;
  /** How many renewals that bound is about. */
  readonly leftCount: number;
}

/** Cumulative counts by upper bound in milliseconds, ascending. */
type Buckets = readonly (readonly [untilMs: number, count: number])[];

export interface ProductionRead {
  readonly production: Production | null;
  /** Why there is none, although there should be. */
  readonly problems: readonly Diagnosis[];
}

/**
 * @param store a server's has metrics of its own
 * @param given default: those of the server; none if the store is no server
 */
export async function readProduction(
  store: string,
  given: string | undefined,
): Promise<ProductionRead> {
  const problem = (value: string, remedy: string): ProductionRead => ({
    production: null,
    problems: [{ what: "metrics of production", value, verdict: "doubtful", remedy }],
  });
  const isServer = /^https?:/i.test(store);
  if (given === undefined && !isServer) return { production: null, problems: [] };
  if (given !== undefined && !/^https?:/i.test(given)) {
    return problem("not read", "--metrics must be the http:// URL of a /metrics");
  }
  const servers = isServer ? await reachServers(store, systemEnv) : null;
  const texts =
    given === undefined ? (servers?.baseUrls ?? []).map((base) => `${base}/metrics`) : [given];
  let last = "";
  try {
    // Of several servers, the figures are those of the first that answers.
    for (const url of texts.map((text) => new URL(text))) {
      // The key and the certificates of the store are for its servers alone.
      const own = servers?.baseUrls.some((base) => new URL(base).origin === url.origin) && servers;
      const key = url.username || (own && own.apiKey) || "";
      url.username = url.password = "";
      last = url.href;
      const found = await read(url, key, own ? own.fetch : fetch).catch(() => null);
      if (found === null) continue;
      const { status, text } = found;
      if (status !== 200) {
        const isAddress = status === 404;
        const remedy = isAddress ? WRONG_ADDRESS : "pass a key that may read metrics";
        return problem(`${last} returned ${status}`, remedy);
      }
      if (!hasSeries(text)) return problem(`${last} has no series of Leasehold`, WRONG_ADDRESS);
      return { production: productionOf(text, last), problems: [] };
    }
    return problem(`${last} did not answer`, WRONG_ADDRESS);
  } finally {
    servers?.close();
  }
}

/** Rejects if there is no answer in time. */
async function read(
  url: URL,
  key: string,
  fetch: Awaited<ReturnType<typeof reachServers>>["fetch"],
): Promise<{ status: number; text: string }> {
  const giveUp = new AbortController();
  const headers: Record<string, string> = key === "" ? {} : { authorization: `Bearer ${key}` };
  const reading = fetch(url.href, {
    headers,
    signal: giveUp.signal,
  }).then(async (response) => ({ status: response.status, text: await response.text() }));
  return withTimeout(systemClock, TIMEOUT_MS, reading, () => {
    giveUp.abort();
    throw new Error("no answer");
  });
}

/** Whether the text is metrics of Leasehold, and not another page that was answered with 200. */
function hasSeries(text: string): boolean {
  return /^(# (HELP|TYPE) )?leasehold_\w+[ {]/m.test(text);
}

/** @param source shown in the report @internal */
export function productionOf(text: string, source: string): Production {
  const left = bucketsOf(text, "leasehold_lease_renew_left_seconds");
  return {
    source,
    renewal: distributionOf(
      bucketsOf(text, "leasehold_store_duration_seconds", 'store="leases",operation="renew"'),
    ),
    delay: distributionOf(bucketsOf(text, "leasehold_lease_renew_delay_seconds")),
    stall: distributionOf(bucketsOf(text, "leasehold_process_stall_seconds")),
    leastLeftMs: lowerBound(left, 1 - SHARE),
    leftCount: left.at(-1)?.[1] ?? 0,
  };
}

/** Sums up all series of the histogram whose labels contain the text. */
function bucketsOf(text: string, name: string, labels = ""): Buckets {
  const counts = new Map<number, number>();
  for (const line of text.split("\n")) {
    if (!line.startsWith(`${name}_bucket{`) || !line.includes(labels)) continue;
    const [, le = "", count = ""] = /le="([^"]+)"\} (\S+)$/.exec(line) ?? [];
    const untilMs = le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le) * 1_000;
    counts.set(untilMs, (counts.get(untilMs) ?? 0) + Number(count));
  }
  return [...counts].sort(([a], [b]) => a - b);
}

function distributionOf(buckets: Buckets): Distribution | null {
  const count = buckets.at(-1)?.[1] ?? 0;
  if (count === 0) return null;
  const until = (share: number) => boundOf(buckets, rankOf(share, count));
  return { count, p50Ms: until(0.5), p99Ms: until(0.99), p999Ms: until(SHARE), maxMs: until(1) };
}

function rankOf(share: number, count: number): number {
  return Math.max(1, Math.ceil(share * count));
}

/** The upper bound of the bucket that has the event of this rank; of the last bucket, its lower bound. */
function boundOf(buckets: Buckets, rank: number): number {
  const index = buckets.findIndex(([, below]) => below >= rank);
  const [untilMs = 0] = buckets[index] ?? [];
  return Number.isFinite(untilMs) ? untilMs : (buckets[index - 1]?.[0] ?? 0);
}

function lowerBound(buckets: Buckets, share: number): number | null {
  const count = buckets.at(-1)?.[1] ?? 0;
  if (count === 0) return null;
  const index = buckets.findIndex(([, below]) => below >= rankOf(share, count));
  return buckets[index - 1]?.[0] ?? 0;
}
