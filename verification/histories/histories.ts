/**
 * Makes histories: of clients that ask a store at random, through a network that fails. The seed decides what is asked and what goes wrong; when, the
 * machine decides too, so that a seed makes a like history, not the same one.
 */

import type { LeaseStore, Random } from "leasehold";
import { newLeaseId, sleep, systemClock, systemRandom } from "leasehold/internal";
import { History, type HistoryEntry, recordHistory, seededRandom } from "leasehold/testing";
import type { HistorySize, HistoryTarget } from "./targets.js";

export interface MadeHistory {
  readonly seed: number;
  readonly entries: readonly HistoryEntry[];
  /** What went wrong on the way, by kind. */
  readonly faults: Readonly<Record<string, number>>;
  /** What was answered, by operation and status. */
  readonly answers: Readonly<Record<string, number>>;
}

export async function makeHistory(
  target: HistoryTarget,
  seed: number,
  size: HistorySize = { clients: 8, requests: 200 },
): Promise<MadeHistory> {
  const { shortestTtlMs = SHORTEST_TTL_MS } = target;
  const random = seededRandom(seed);
  const between = (least: number, most: number) =>
    Math.floor(least + random.float() * (most - least + 1));
  const clients = between(Math.ceil(size.clients / 2), size.clients);
  // A leasehold server has one namespace, so the resources are new instead.
  const namespace = "default";
  const run = newLeaseId(systemRandom).slice(0, 8);
  const resources = Array.from({ length: between(1, 3) }, (_, at) => `${run}-${at + 1}`);
  const opened = await target.open(clients, seededRandom(between(0, 2 ** 31)));
  const history = new History();
  try {
    let running = true;
    const disturbing = opened.disturb(() => !running);
    await Promise.all(
      opened.stores.map((store, at) => {
        const { tries } = opened;
        const counted = tries && { tries: () => tries(at) };
        const options = { client: `c${at + 1}`, history, ...counted };
        const recorded = recordHistory(store, systemClock, options).store;
        const requests = between(Math.ceil(size.requests / 2), size.requests);
        const own = seededRandom(between(0, 2 ** 31));
        const { client: name } = options;
        return new HistoryClient(recorded, name, namespace, resources, own, shortestTtlMs).run(
          requests,
        );
      }),
    );
    running = false;
    await disturbing;
    const observer = recordHistory(opened.direct, systemClock, { client: "last", history }).store;
    await Promise.all(
      resources.map((resource) =>
        takeAtLast(observer, { namespace, resource }, random, shortestTtlMs),
      ),
    );
  } finally {
    await opened.close();
  }
  const entries = history.entries();
  return { seed, entries, faults: opened.faults(), answers: answersOf(entries) };
}

const SHORTEST_TTL_MS = 100;

class HistoryClient {
  /** Of each resource: what it asked for last, and before. */
  readonly #leaseIds = new Map<string, string[]>();

  constructor(
    readonly store: LeaseStore,
    readonly name: string,
    readonly namespace: string,
    readonly resources: readonly string[],
    readonly random: Random,
    readonly shortestTtlMs: number,
  ) {}

  async run(requests: number): Promise<void> {
    for (let count = 0; count < requests; count++) {
      await this.#ask();
      await sleep(systemClock, this.random.float() ** 3 * 40);
    }
  }

  async #ask(): Promise<void> {
    const { store, namespace, random } = this;
    const resource = this.resources[Math.floor(random.float() * this.resources.length)] ?? "";
    const known = this.#leaseIds.get(resource) ?? [];
    this.#leaseIds.set(resource, known);
    const leaseId = known[Math.floor(random.float() ** 3 * known.length)];
    const key = { namespace, resource };
    const options = { timeoutMs: 50 + Math.floor(random.float() * 450) };
    const [ttlMs, choice] = [this.#ttlMs(), random.float()];
    if (leaseId === undefined || choice < 0.35) {
      const fresh = newLeaseId(random);
      const request = { ...key, leaseId: fresh, holder: this.name, ttlMs };
      const [outcome] = await store.acquire([request], options);
      // Keep few refused lease ids for later requests, but all that were granted or may have been.
      if (outcome?.status !== "held" || random.float() < 0.2) known.unshift(fresh);
    } else if (choice < 0.5) {
      await store.acquire([{ ...key, leaseId, holder: this.name, ttlMs }], options);
    } else if (choice < 0.75) {
      await store.renew([{ ...key, leaseId, ttlMs }], options);
    } else if (choice < 0.93) {
      await store.release([{ ...key, leaseId }], options);
    } else {
      await this.#revoke(key, options);
    }
  }

  async #revoke(
    key: { namespace: string; resource: string },
    options: { timeoutMs: number },
  ): Promise<void> {
    const { store, random } = this;
    const free = random.float() < 0.5 ? "now" : "atExpiry";
    if (random.float() < 0.5) {
      await store.revoke([{ ...key, free }], options);
      return;
    }
    // What an operator does: look, then revoke what was seen.
    const [view] = await store.get([key]).catch(() => [null]);
    const expectedToken = view?.token ?? 1;
    await store.revoke([{ ...key, free, expectedToken }], options);
  }

  #ttlMs(): number {
    return Math.floor(this.shortestTtlMs * (1 + 2 * this.random.float()));
  }
}

/** Shows what is left in the end: the resource can be had. */
async function takeAtLast(
  store: LeaseStore,
  key: { namespace: string; resource: string },
  random: Random,
  ttlMs: number,
): Promise<void> {
  const leaseId = newLeaseId(random);
  const request = { ...key, leaseId, holder: "last", ttlMs };
  for (let tries = 0; tries < 3_000; tries++) {
    const [outcome] = await store.acquire([request]);
    if (outcome?.status === "acquired") return;
    await sleep(systemClock, 10);
  }
  throw new Error(`"${key.resource}" cannot be had any more`);
}

function answersOf(entries: readonly HistoryEntry[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { operation, result, outcome } of entries) {
    const reason = outcome && "reason" in outcome ? ` ${outcome.reason}` : "";
    const answer = `${operation} ${outcome?.status ?? result}${reason}`;
    counts[answer] = (counts[answer] ?? 0) + 1;
  }
  return counts;
}
