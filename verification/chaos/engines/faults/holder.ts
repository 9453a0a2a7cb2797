/** What befalls the processes that hold leases. */
import { setTimeout as delay } from "node:timers/promises";
import { nowMs } from "../clock.js";
import type { HolderSlot } from "../holders.js";
import type { Kind, Site } from "../site.js";

const HERD = 500;
const [HERD_WAIT_TTLS, HERD_LEAST_WAIT_MS] = [8, 15_000];
/** For a herd's clients to connect, and to close. */
const HERD_SLACK_MS = 60_000;

const holder = (name: string, happen: Kind["happen"]): Kind => ({ name, area: "holder", happen });

async function pause(site: Site, slot: HolderSlot, ms: number): Promise<void> {
  const stoodMs = await slot.pause(ms);
  if (stoodMs > site.ttlMs) site.pausesPastTtl += 1;
}

/** Stopped together, up to three of them: they come back together, and late. */
const paused = (ttls: number): Kind => ({
  ...holder(`SIGSTOP for ${ttls} ttl`, (site, random) =>
    site.atSeveral(random, ttls > 1 ? 3 : 1, (slot) => pause(site, slot, ttls * site.ttlMs)),
  ),
  pauses: ttls > 1,
});

/** Stands in the middle of a step, between the check and the write. */
const standing = (name: string, what: "block" | "gc"): Kind => ({
  ...holder(name, (site, random) =>
    site.atSeveral(random, 2, async (slot) => {
      const stood = site.witness.hears(slot.name, "stood", 8 * site.ttlMs);
      slot.say(`${what} ${1.5 * site.ttlMs}`);
      if (((await stood)?.ms ?? 0) > site.ttlMs) site.pausesPastTtl += 1;
    }),
  ),
  pauses: true,
});

export const HOLDER_KINDS: readonly Kind[] = [
  holder("SIGKILL", (site, random) =>
    site.atOne(random, async (slot) => {
      await slot.end("SIGKILL");
      await slot.ready();
    }),
  ),
  ...[0.5, 1, 1.5, 3].map(paused),
  holder("SIGTERM in the middle of work", (site, random) =>
    site.atOne(random, async (slot) => {
      const { name } = slot;
      const code = await slot.end("SIGTERM");
      if (code !== 0) site.complaints.push(`${name} ended with ${code} at SIGTERM`);
      await slot.ready();
    }),
  ),
  standing("event loop blocked for 1.5 ttl", "block"),
  standing("garbage collection for 1.5 ttl", "gc"),
  holder(`herd of ${HERD} waiters`, (site, random) =>
    site.atOne(random, async (slot) => {
      const { name } = slot;
      const waitMs = Math.max(HERD_LEAST_WAIT_MS, HERD_WAIT_TTLS * site.ttlMs);
      const came = site.witness.hears(name, "herd", waitMs + HERD_SLACK_MS);
      slot.say(`herd herd ${HERD} ${waitMs}`);
      const { served = 0, gaveUp = 0 } = (await came) ?? {};
      site.herd.waiters += HERD;
      site.herd.served += served;
      site.herd.gaveUp += gaveUp;
      if (served + gaveUp !== HERD) {
        site.complaints.push(`of ${HERD} waiters of ${name} ${served} were served, ${gaveUp} not`);
      }
    }),
  ),
  holder("two holders of one name", (site, random) =>
    site.atOne(random, (slot) => slot.twin(4 * site.ttlMs)),
  ),
];

/**
 * One holder is lost while all else is well: how long until others have what it had? Resolves when
 * they do, or when that is overdue.
 */
const lost = (kind: string, act: (site: Site, slot: HolderSlot) => Promise<void>): Kind =>
  holder(kind, (site, random) =>
    site.atOne(random, async (slot) => {
      const { journal } = site.witness;
      const by = slot.name;
      const wasSteady = await site.isSteady();
      const atMs = nowMs();
      const overdue = AbortSignal.timeout(2 * site.takeoverMs);
      const gone = act(site, slot);
      // Messages that it sent before the signal may still arrive.
      await delay(10);
      const had = journal.heldBy(by);
      await journal.until(() => had.every((grant) => journal.next(grant)), overdue);
      await gone;
      if ((await site.isSteady()) && wasSteady) {
        site.losses.push({ kind, by, atMs, calmMs: atMs - site.calmFromMs });
      } else site.unsteady += 1;
    }),
  );

export const LOSS_KINDS: readonly Kind[] = [
  lost("SIGKILL", async (_, slot) => {
    await slot.end("SIGKILL");
  }),
  lost("SIGSTOP for longer than a takeover", (site, slot) =>
    pause(site, slot, 1.2 * site.takeoverMs),
  ),
];
