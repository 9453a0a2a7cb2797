import { it } from "vitest";
import { connect } from "../../../../packages/leasehold/src/index.js";

it("leaves a client that waits for signals", async () => {
  await connect("memory:", { closeOnSignals: ["SIGTERM"] });
});
