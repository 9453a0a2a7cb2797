/** Holders whose clocks run wrong, or are set, from their start on or while they run. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  type FakeClock,
  missingClocks,
  setClock,
} from "../../../../tests/support/processes/fake-clock.js";
import { temporaryFolder } from "../../../../tests/support/processes/processes.js";
import type { HolderOptions, HolderSlot } from "../holders.js";
import type { Kind } from "../site.js";

const LASTS_TTLS = 4;
const JUMP_MS = 60_000;
/** The `driftRatio` of a holder whose clock is off by a tenth. */
const DRIFT_RATIO = 0.2;

const clock = (name: string, happen: Kind["happen"]): Kind => {
  return { name, area: "clock", missing: missingClocks(), happen };
};

/** The next incarnation has this clock, for some ttls; the one after that the machine's. */
async function wear(
  slot: HolderSlot,
  options: HolderOptions,
  act: () => Promise<unknown>,
): Promise<void> {
  await slot.end("SIGKILL", options);
  await slot.ready();
  await act();
  await slot.end("SIGKILL");
  await slot.ready();
}

const rate = (name: string, rate: number): Kind =>
  clock(name, (site, random) =>
    site.atOne(random, (slot) =>
      wear(slot, { clock: { rate }, driftRatio: DRIFT_RATIO }, () =>
        delay(LASTS_TTLS * site.ttlMs),
      ),
    ),
  );

/** The wall clock alone, of a process that runs: the monotonic clock is never set. */
const jump = (name: string, offsetMs: number): Kind =>
  clock(name, (site, random) =>
    site.atOne(random, async (slot) => {
      const folder = await temporaryFolder();
      const file = join(folder, "clock");
      setClock(file, {});
      const own: FakeClock = { file, wallOnly: true };
      await wear(slot, { clock: own }, async () => {
        await delay((LASTS_TTLS / 2) * site.ttlMs);
        setClock(file, { offsetMs });
        await delay((LASTS_TTLS / 2) * site.ttlMs);
      });
      await rm(folder, { recursive: true, force: true });
    }),
  );

export const CLOCK_KINDS: readonly Kind[] = [
  rate("holder's clock a tenth fast", 1.1),
  rate("holder's clock a tenth slow, within its drift ratio", 0.9),
  // Beyond the drift ratio: two holders may trust a lease at once, and only the fence protects.
  clock("holder's clock at half its rate", (site, random) =>
    site.atOne(random, async (slot) => {
      await wear(slot, { clock: { rate: 0.5 } }, () =>
        site.marked(slot.name, site.ttlMs, () => delay(LASTS_TTLS * site.ttlMs)),
      );
    }),
  ),
  jump("holder's wall clock jumps ahead", JUMP_MS),
  jump("holder's wall clock jumps back", -JUMP_MS),
];
