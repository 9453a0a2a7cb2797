/** A real server whose log has a reader that stops, as when a pipe's other end is suspended. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { newLeaseId, systemRandom } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { checkBuild, MAIN, ownEnvironment } from "../support/processes/cli.js";

beforeAll(() => checkBuild());

type Line = Record<string, unknown>;

it("serves, says how many lines were left out once it reads again, and ends although it has stopped", async () => {
  const args = ["serve", "--port", "0", "--store", "memory:"];
  const server = spawn(process.execPath, [MAIN, ...args], {
    stdio: ["ignore", "ignore", "pipe"],
    env: ownEnvironment(),
  });
  onTestFinished(() => void server.kill("SIGKILL"));
  const lines: Line[] = [];
  let onLine = () => {};
  const reader = createInterface({ input: server.stderr }).on("line", (line) => {
    lines.push(JSON.parse(line) as Line);
    onLine();
  });
  const logged = async (wanted: (line: Line) => boolean) => {
    for (;;) {
      const line = lines.find(wanted);
      if (line) return line;
      await new Promise<void>((resolve) => {
        onLine = resolve;
      });
    }
  };
  const { url } = await logged((entry) => "url" in entry);

  /** Each grant is a line of over 500 bytes: far more in all than the pipe and the server take. */
  const acquireMany = async () => {
    for (let round = 0; round < 12; round += 1) {
      const grants = Array.from({ length: 500 }, () => {
        const leaseId = newLeaseId(systemRandom);
        const resource = leaseId.repeat(5);
        return { leaseId: toWireLeaseId(resource, leaseId), holder: "h", ttlMs: 30_000 };
      });
      const response = await fetch(`${String(url)}/v1/leases/acquire`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(grants),
      });
      expect(response.status).toBe(200);
      await response.text();
    }
  };
  reader.pause();
  server.stderr.pause();
  await acquireMany();
  reader.resume();
  server.stderr.resume();
  const { leftOut } = await logged(({ event }) => event === "lines_left_out");
  expect(leftOut).toBeGreaterThan(0);

  reader.pause();
  server.stderr.pause();
  await acquireMany();
  server.kill("SIGTERM");
  expect(await once(server, "exit")).toEqual([0, null]);
}, 120_000);
