/** A store with a clock that a test can move. */
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";

export default async function open() {
  const env = manualEnv();
  const { leases } = await memory().open(env);
  return { store: leases, advance: (ms) => env.clock.advance(ms) };
}
