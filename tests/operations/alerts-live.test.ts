/**
 * Each alert of deploy/, end to end: real servers, scraped by a real Prometheus with the shipped rules, whose
 * windows are divided by 60. Each alert must fire by its cause, and end when the cause has ended.
 */
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, expect, it } from "vitest";
import { memoryGuard } from "../../packages/leasehold/src/fence/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import { BUDGET_HEADER } from "../../packages/leasehold/src/wire/index.js";
import { startOpenTelemetry } from "../../packages/leasehold-server/src/cli/open-telemetry.js";
import { describeUnless } from "../support/engines/postgres.js";
import { missingRedis, startRedis } from "../support/engines/redis-engine.js";
import { checkBuild, endAll, serve } from "../support/processes/cli.js";
import {
  missingPrometheus,
  type Prometheus,
  scaled,
  startPrometheus,
} from "../support/processes/prometheus.js";

/** About 45 s on an idle machine: the longest wait is that of LeaseholdContention, then the window after it. */
const PATIENT_MS = 420_000;
const OLD_SECONDS = 3;
/** Between the attempts of a cause that goes on until its alert fires. */
const AGAIN_MS = 50;
/** Longer than the longest scaled window: on a busy machine, Prometheus may miss the samples that show a burst. */
const BURST_AGAIN_MS = 20_000;

/** Longer than a slow store's second, shorter than a scaled window. */
const BUDGET_MS = 1_500;
const SPREAD_MS = BUDGET_MS / 20;
const STORE_ALERTS = [
  "LeaseholdRenewalsFailSlowStore",
  "LeaseholdReleasesFail",
  "LeaseholdServerErrors",
];

/** They last as long as their causes. */
const LASTING = [
  "LeaseholdServerDown",
  "LeaseholdContention",
  "LeaseholdTenantHeldBack",
  ...STORE_ALERTS,
];

const rules = await readFile(
  new URL("../../deploy/prometheus/alerts.yml", import.meta.url),
  "utf8",
);
const ALERTS = [...rules.matchAll(/alert: (\w+)/g)].map(([, name = ""]) => name);

describeUnless(missingPrometheus() ?? missingRedis(), "with Prometheus", () => {
  const ends: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const end of ends.reverse()) await end();
    await endAll();
  });

  it("each alert fires by its cause and ends with it", { timeout: PATIENT_MS }, async () => {
    checkBuild();
    const redis = await startRedis();
    ends.push(() => redis.remove());
    const [steady, small, stopped, frail] = await Promise.all([
      serve("memory:alerts"),
      serve("memory:alerts-small", ["--limits", "leases=1"]),
      serve("memory:alerts-stopped"),
      serve(redis.url, ["--control", "memory:alerts-control"]),
    ]);
    const program = await startOpenTelemetry();
    const exporter = await exportText(program.metrics);
    ends.push(() => program.close(), exporter.close);
    const server = caller(steady.url);
    const slow = caller(frail.url);
    const limited = caller(small.url);

    // These two are so from the beginning: a sample of them may be 15 s old.
    const old = await server.acquire("old", 600_000);
    await server.ask("POST", "/api/tasks", { task_data: 1, queue: "stuck" });
    const only = await limited.acquire("only", 600_000);
    const held = await Promise.all(
      Array.from({ length: 20 }, (_, n) => slow.acquire(`held/${n}`, 600_000)),
    );

    const prometheus = await startPrometheus(
      {
        leasehold: [steady.url, small.url, stopped.url, frail.url].map((url) => new URL(url).host),
        program: [exporter.host],
      },
      scaled(rules, OLD_SECONDS),
    );
    await prometheus.scraped(4);
    expect(await firstBurst(prometheus)).toEqual([]);

    const fired = new Set<string>();
    const untilFired = async (names: readonly string[], cause: () => Promise<unknown>) => {
      while (!names.every((name) => fired.has(name))) {
        await cause();
        await delay(AGAIN_MS);
      }
    };
    // Each of these causes is one burst, which the alerts must show.
    const burst = (round: number) =>
      Promise.all([
        ...Array.from({ length: 6 }, (_, n) => server.loseByExpiry(`expired/${round}/${n}`)),
        server.loseOften("nightly-report", 4),
        server.dieOnce(),
        changeLeader(steady.url, 12),
        refuseStaleWrites(program.telemetry, 4),
      ]);
    const ofBursts = ALERTS.filter((name) => !LASTING.includes(name));
    const bursts = async () => {
      for (let round = 0; ; round += 1) {
        await burst(round);
        const againMs = performance.now() + BURST_AGAIN_MS;
        while (performance.now() < againMs) {
          if (ofBursts.every((name) => fired.has(name))) return;
          await delay(AGAIN_MS);
        }
      }
    };
    // The others last until their alerts fire.
    await Promise.all([redis.process?.stop(), stopped.cli.stop()]);
    const causes = [
      bursts(),
      untilFired(["LeaseholdContention"], () =>
        server.ask("POST", "/v1/locks/acquire", lock("old")),
      ),
      untilFired(["LeaseholdTenantHeldBack"], () =>
        limited.ask("POST", "/v1/locks/acquire", lock("second")),
      ),
      // Each call uses up its budget. Spread out, some of them end in every scaled window.
      ...held.map(async ({ renew, release }, n) => {
        await delay(n * SPREAD_MS);
        await untilFired(STORE_ALERTS, () => Promise.all([renew(), release()]));
      }),
    ];
    await prometheus.until((names) => {
      for (const name of names) fired.add(name);
      return ALERTS.every((name) => fired.has(name));
    });
    expect([...fired].sort()).toEqual([...ALERTS].sort());

    await Promise.all(causes);
    redis.process?.cont();
    stopped.cli.cont();
    await Promise.all([old, only, ...held].map(({ release }) => release()));
    await server.claim("stuck");
    await prometheus.until((names) => names.size === 0);
  });
});

/** The alerts that fire before any cause. */
async function firstBurst(prometheus: Prometheus) {
  const labels = await prometheus.firing();
  return labels.filter(({ alertname }) => alertname !== "LeaseholdLongHeld");
}

const lock = (resource: string, ttlMs = 1_000) => ({ resource, ownerId: "holder", ttlMs });

/** What programs do to a server. */
function caller(url: string) {
  const ask = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        [BUDGET_HEADER]: `${BUDGET_MS}`,
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text.startsWith("{") ? JSON.parse(text) : null };
  };
  const acquire = async (resource: string, ttlMs = 1_000) => {
    const { body } = await ask("POST", "/v1/locks/acquire", lock(resource, ttlMs));
    expect(body.acquired, resource).toBe(true);
    const path = `/v1/locks/${body.leaseId}`;
    return {
      renew: () => ask("POST", `${path}/renew`, { ttlMs }),
      release: () => ask("DELETE", path),
    };
  };
  return {
    ask,
    acquire,
    /** A holder that renews too late. */
    async loseByExpiry(resource: string) {
      const { renew } = await acquire(resource);
      for (let isHeld = true; isHeld; ) {
        await delay(AGAIN_MS);
        const { body } = await ask("GET", `/v1/locks?resource=${encodeURIComponent(resource)}`);
        isHeld = JSON.stringify(body).includes(`"${resource}"`);
      }
      expect((await renew()).status).toBe(409);
    },
    /** A holder that renews again and again what an operator has ended. */
    async loseOften(resource: string, times: number) {
      const { renew } = await acquire(resource);
      await ask("POST", "/v1/leases/revoke", [{ resource, free: "now" }]);
      for (let n = 0; n < times; n += 1) expect((await renew()).status).toBe(409);
    },
    async claim(queue: string) {
      const request = { processor: "worker", queues: [queue] };
      const { body } = await ask("POST", "/api/tasks/next", request);
      expect(body.tasks).toHaveLength(1);
      return body.tasks[0];
    },
    async dieOnce() {
      await ask("POST", "/api/tasks", { task_data: 1, queue: "dying", maxAttempts: 1 });
      const { id, leaseId, fencingToken } = await this.claim("dying");
      const grant = { processor: "worker", leaseId, fencingToken, error: "broken" };
      expect((await ask("PUT", `/api/tasks/${id}/fail`, grant)).body.state).toBe("dead");
    },
  };
}

async function changeLeader(url: string, terms: number): Promise<void> {
  const client = await connect(url);
  const over = new AbortController();
  let count = 0;
  await client.elector("scheduler", { retryDelayMs: 0 }).lead(
    async () => {
      count += 1;
      if (count === terms) over.abort();
    },
    { signal: over.signal },
  );
  await client.close();
}

/** By a guard in a program of its own, which is scraped too. */
async function refuseStaleWrites(
  telemetry: Awaited<ReturnType<typeof startOpenTelemetry>>["telemetry"],
  times: number,
): Promise<void> {
  const guard = memoryGuard({ telemetry });
  await guard.guard("row", 2, () => {});
  for (let n = 0; n < times; n += 1) {
    await expect(guard.guard("row", 1, () => {})).rejects.toThrow("2");
  }
}

async function exportText(metrics: () => Promise<string>) {
  const server: Server = createServer((_, response) => {
    void metrics().then((text) =>
      response.setHeader("content-type", "text/plain; version=0.0.4").end(text),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}
