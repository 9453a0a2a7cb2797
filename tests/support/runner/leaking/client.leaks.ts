import { it } from "vitest";
import { connect } from "../../../../packages/leasehold/src/index.js";

// An idle client holds no process open, and is a leak all the same.
it("passes", async () => {
  await connect(process.env["LEAKING_URL"] ?? "");
});
