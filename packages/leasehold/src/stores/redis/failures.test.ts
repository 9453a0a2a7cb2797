/** How the store reports failures that ioredis words in its own way. */
import { Redis } from "ioredis";
import { expect, it } from "vitest";
import { storeError } from "./failures.js";

it("says of a command that was never written that nothing has changed", async () => {
  const client = new Redis({ lazyConnect: true, enableOfflineQueue: false });
  const error = await client.get("key").catch((reason: unknown) => reason);
  client.disconnect();
  expect(storeError(error, true)).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
});

it("says of one whose connection ended that it may have taken effect", () => {
  const error = new Error("Connection is closed.");
  expect(storeError(error, true)).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "unknown" });
});
