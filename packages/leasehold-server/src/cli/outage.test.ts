/** What a waiting command says of a store that stops answering. */
import type { AnyLease, Leasehold } from "leasehold";
import { expect, it, vi } from "vitest";
import type { Notice } from "./notices.js";
import { Outage } from "./outage.js";

it("says of each outage when it began, and that the store answers again", async () => {
  const said: Notice["event"][] = [];
  const outage = new Outage(({ event }) => void said.push(event));
  let answers = true;
  const get = async () => {
    if (!answers) throw new Error("connection refused");
    return null;
  };
  outage.watch({ get } as unknown as Leasehold<AnyLease>, "nightly");
  const saidBy = (count: number) =>
    vi.waitFor(() => expect(said).toHaveLength(count), { timeout: 60_000, interval: 5 });
  for (let outages = 1; outages <= 2; outages += 1) {
    answers = false;
    // The library warns of each retry.
    for (let tries = 0; tries < 3; tries += 1) outage.logger.warn({ err: "no answer" }, "retrying");
    await saidBy(2 * outages - 1);
    answers = true;
    await saidBy(2 * outages);
  }
  expect(said).toEqual(["retrying", "answering", "retrying", "answering"]);
  outage.end();
});

it("says nothing of a store that answers by the time it is asked", async () => {
  const said: unknown[] = [];
  const outage = new Outage((notice) => void said.push(notice));
  const get = vi.fn(async () => null);
  outage.watch({ get } as unknown as Leasehold<AnyLease>, "nightly");
  outage.logger.warn({ err: "no answer" }, "retrying");
  outage.logger.warn({}, "not about the store");
  await vi.waitFor(() => expect(get).toHaveBeenCalledTimes(1));
  expect(said).toEqual([]);
  outage.end();
});
