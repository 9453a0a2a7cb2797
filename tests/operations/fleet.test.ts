/** A fleet as it is deployed: instances that start together, and those that leave while others go on. */
import { afterEach, beforeAll, expect, it } from "vitest";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";
import { Cli, checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

const PODS = 10;

beforeAll(() => checkBuild());
afterEach(() => endAll());

it("after SIGTERM a server refuses to be ready and serves on, for as long as --drain-delay says", async () => {
  const { cli, url } = await serve("memory:test", ["--drain-delay", "1h"]);
  expect((await fetch(`${url}/readyz`)).status).toBe(200);
  cli.kill("SIGTERM");
  await cli.until(({ err }) => err.some((line) => line.includes("draining")));
  expect((await fetch(`${url}/readyz`)).status).toBe(503);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect((await fetch(`${url}/v1/leases`)).status).toBe(200);
  await cli.stop();
});

it("a server drains in no time by default, and exits with 0", async () => {
  const { cli } = await serve();
  expect((await cli.end("SIGTERM")).code).toBe(0);
});

describePostgres("on one PostgreSQL", () => {
  it("ten instances that start together migrate once, and all of them serve", async () => {
    const { url, drop } = await freshDatabase();
    try {
      const pods = Array.from({ length: PODS }, () => serve(url));
      for (const pod of await Promise.all(pods)) {
        expect((await fetch(`${pod.url}/readyz`)).status).toBe(200);
      }
      const left = await leasehold(["migrate", "--dry-run", "--json", "--store", url]);
      expect(JSON.parse(left.stdout)).toMatchObject({ remaining: [] });
    } finally {
      await endAll();
      await drop();
    }
  });

  it("a leader that is replaced hands over at once, though its lease has an hour left", async () => {
    const { url, drop } = await freshDatabase();
    try {
      const elect = (holder: string) =>
        new Cli(["elect", "e", "--json", "--ttl", "1h", "--holder", holder, "--store", url]);
      const leads = ({ out }: Cli) => out.find((line) => line.includes("token"));
      const old = elect("old");
      await old.until(leads);
      const next = elect("new");
      expect((await old.end("SIGTERM")).code).toBe(0);
      expect(await next.until(leads)).toContain("new");
    } finally {
      await endAll();
      await drop();
    }
  });
});
