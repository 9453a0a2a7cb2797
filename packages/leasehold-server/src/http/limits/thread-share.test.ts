/** How much of the server's thread a tenant may take, on a manual clock. */
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { ThreadShare } from "./thread-share.js";

const refusal = (waitSeconds: number) =>
  expect.objectContaining({
    code: "TOO_MANY_REQUESTS",
    message: "checking data takes too long",
    init: { headers: { "retry-after": `${waitSeconds}` } },
  }) as Error;

function open() {
  const { clock } = manualEnv();
  const share = new ThreadShare(clock);
  return { clock, share, check: (tenant: string) => () => share.check(tenant, "checking data") };
}

it("lets a tenant take a quarter of a second at once, and then a tenth of the time", async () => {
  const { clock, share, check } = open();
  expect(check("a")).not.toThrow();
  share.take("a", 249);
  expect(check("a")).not.toThrow();
  share.take("a", 1);
  expect(check("a")).toThrow(refusal(1));
  await clock.advance(10);
  expect(check("a")).not.toThrow();
});

it("says how long a tenant must wait that has taken more", async () => {
  const { clock, share, check } = open();
  share.take("a", 750);
  // It owes 500 ms, a tenth of five seconds.
  expect(check("a")).toThrow(refusal(6));
  await clock.advance(4_000);
  expect(check("a")).toThrow(refusal(2));
  await clock.advance(1_010);
  expect(check("a")).not.toThrow();
});

it("saves no more than the quarter of a second, however long a tenant takes nothing", async () => {
  const { clock, share, check } = open();
  share.take("a", 100);
  await clock.advance(3_600_000);
  share.take("a", 250);
  expect(check("a")).toThrow(refusal(1));
});

it("counts each tenant alone", () => {
  const { share, check } = open();
  share.take("a", 1_000);
  expect(check("a")).toThrow();
  expect(check("b")).not.toThrow();
});

it("forgets a tenant that has all its time, and no other", async () => {
  const { clock, share, check } = open();
  share.take("a", 1_000);
  share.take("b", 1);
  await clock.advance(10);
  share.forget();
  expect(check("a")).toThrow();
  share.take("b", 250);
  expect(check("b")).toThrow();
});
