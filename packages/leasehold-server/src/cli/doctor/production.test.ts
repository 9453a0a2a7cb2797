import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { productionOf, readProduction } from "./production.js";

/** A histogram with `counts` events up to each boundary in seconds. */
function histogram(name: string, counts: Readonly<Record<string, number>>, labels = ""): string {
  let below = 0;
  const ascending = Object.entries(counts).sort(([a], [b]) => Number(a) - Number(b));
  const lines = ascending.map(([le, count]) => {
    below += count;
    return `${name}_bucket{${labels}le="${le}"} ${below}`;
  });
  return [...lines, `${name}_bucket{${labels}le="+Inf"} ${below}`].join("\n");
}

it("reads upper bounds of durations and the least time left, of renewals alone", () => {
  const store = (operation: string, outcome: string) =>
    `store="leases",operation="${operation}",outcome="${outcome}",`;
  const name = "leasehold_store_duration_seconds";
  const text = [
    histogram(name, { "0.001": 900, "0.1": 50 }, store("renew", "ok")),
    histogram(name, { "0.001": 0, "5": 50 }, store("renew", "failed")),
    histogram(name, { "60": 1_000 }, store("acquire", "ok")),
    histogram("leasehold_process_stall_seconds", { "0.001": 9_980, "0.5": 19, "2.5": 1 }),
    histogram("leasehold_lease_renew_left_seconds", { "0.1": 0, "1": 2, "10": 998 }),
    histogram("leasehold_lease_renew_delay_seconds", { "0.001": 0 }),
  ].join("\n");
  expect(productionOf(text, "here")).toEqual({
    source: "here",
    renewal: { count: 1_000, p50Ms: 1, p99Ms: 5_000, p999Ms: 5_000, maxMs: 5_000 },
    stall: { count: 10_000, p50Ms: 1, p99Ms: 1, p999Ms: 500, maxMs: 2_500 },
    delay: null,
    leastLeftMs: 100,
    leftCount: 1_000,
  });
});

it("has nothing of a process that has renewed nothing", () => {
  expect(productionOf("# HELP x y\n", "here")).toEqual({
    source: "here",
    renewal: null,
    delay: null,
    stall: null,
    leastLeftMs: null,
    leftCount: 0,
  });
});

async function serving(text: string): Promise<string> {
  const server = createServer((_, response) => response.end(text)).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/healthz`;
}

it.each([
  ["a page", "<!doctype html><p>leasehold_store_duration_seconds</p>"],
  ["the answer of a health check", '{"status":"ok"}'],
  ["the metrics of another program", "# TYPE up gauge\nup 1\n"],
  ["nothing", ""],
])("says of %s that it has no series of Leasehold", async (_, text) => {
  const url = await serving(text);
  expect(await readProduction("memory:", url)).toEqual({
    production: null,
    problems: [
      {
        what: "metrics of production",
        value: `${url} has no series of Leasehold`,
        verdict: "doubtful",
        remedy: "check the address, or leave --metrics out",
      },
    ],
  });
});

it("takes the metrics of a process that has recorded nothing yet", async () => {
  const url = await serving("# HELP leasehold_process_stall_seconds x\n");
  expect(await readProduction("memory:", url)).toMatchObject({ problems: [] });
});
