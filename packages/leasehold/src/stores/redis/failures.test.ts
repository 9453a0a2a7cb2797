/** How the store reports failures that ioredis words in its own way. */
import { Redis } from "ioredis";
import { expect, it } from "vitest";
import { storeError } from "./failures.js";

it("reports applied no for a command that was never written", async () => {
  const client = new Redis({ lazyConnect: true, enableOfflineQueue: false });
  const error = await client.get("key").catch((reason: unknown) => reason);
  client.disconnect();
  expect(storeError(error, true)).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
});

it("reports applied maybe for a command whose connection ended", () => {
  const error = new Error("Connection is closed.");
  expect(storeError(error, true)).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "unknown" });
});
