/** What the tests of the command line have done by `leasehold worker`. */
import { defineTask } from "leasehold";
import { memoryGuard } from "leasehold/fence";

export default (options, { telemetry }) => [
  defineTask("double").handle((n) => 2 * n),
  defineTask("options").handle(() => {
    if (options.fail) throw new Error("failed on request");
    return options;
  }),
  defineTask("wait").handle(
    (ms, { signal }) =>
      new Promise((resolve, reject) => {
        setTimeout(resolve, ms, "waited");
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
  ),
  // A write that a guard refuses.
  defineTask("stale").handle(async () => {
    const guard = memoryGuard({ telemetry });
    await guard.guard("row", 2, () => {});
    await guard.guard("row", 1, () => {}).catch(() => {});
  }),
  defineTask("deaf").handle(() => new Promise((resolve) => setTimeout(resolve, 60_000))),
  // The event loop of its process is blocked until it is killed.
  defineTask("block").handle(() => {
    for (;;);
  }),
];
