/** What the tests of the command line have done by `leasehold worker`. */
import { defineTask } from "leasehold";

export default (options) => [
  defineTask("double").handle((n) => 2 * n),
  defineTask("options").handle(() => options),
  defineTask("wait").handle(
    (ms, { signal }) =>
      new Promise((resolve, reject) => {
        setTimeout(resolve, ms, "waited");
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
  ),
  defineTask("deaf").handle(() => new Promise((resolve) => setTimeout(resolve, 60_000))),
];
