/** A well-behaved client: it sends valid requests, one after the other, and each must be served. */
import { Agent, request } from "node:http";
import { bearResets, wasClosedMeanwhile } from "./connection.js";

export interface Served {
  readonly requests: number;
  readonly slowestMs: number;
  readonly faults: readonly string[];
}

const PAUSE_MS = 5;

export function serveGood(url: string, key: string): { stop(): Promise<Served> } {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const served = { requests: 0, slowestMs: 0, faults: [] as string[] };
  let going = true;

  const ask = async (method: string, path: string, body?: object) => {
    const beganMs = performance.now();
    const { status, text } = await send(url, agent, key, method, path, body);
    served.requests += 1;
    served.slowestMs = Math.max(served.slowestMs, Math.round(performance.now() - beganMs));
    if (status >= 200 && status < 300) return JSON.parse(text || "null");
    if (served.faults.length < 5)
      served.faults.push(`${method} ${path}: ${status} ${text.slice(0, 300)}`);
    return {};
  };

  const round = async (n: number) => {
    const resource = `good/${n % 10}`;
    const lock = await ask("POST", "/v1/locks/acquire", {
      resource,
      ownerId: "good",
      ttlMs: 30_000,
    });
    await ask("POST", `/v1/locks/${lock.leaseId}/renew`, { ttlMs: 30_000 });
    await ask("GET", "/v1/locks?prefix=good%2F");
    await ask("POST", "/api/tasks", { task_data: { n }, queue: "good" });
    const { tasks } = await ask("POST", "/api/tasks/next", { processor: "good", queues: ["good"] });
    for (const { id, leaseId, fencingToken } of tasks ?? []) {
      await ask("PUT", `/api/tasks/${id}/heartbeat`, { leaseId, fencingToken });
      await ask("PUT", `/api/tasks/${id}/complete`, { leaseId, fencingToken, task_output: n });
    }
    await ask("DELETE", `/v1/locks/${lock.leaseId}`);
  };

  const rounds = (async () => {
    for (let n = 0; going; n += 1) {
      try {
        await round(n);
      } catch (error) {
        served.faults.push(String(error));
        going &&= served.faults.length < 5;
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  })();

  return {
    async stop() {
      going = false;
      await rounds;
      agent.destroy();
      return served;
    },
  };
}

function send(url: string, agent: Agent, key: string, method: string, path: string, body?: object) {
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${key}`,
      ...(body ? { "content-type": "application/json" } : {}),
    };
    const asking = request(`${url}${path}`, { method, agent, headers }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk: string) => (text += chunk));
      answer.once("end", () => resolve({ status: answer.statusCode ?? 0, text }));
      answer.once("error", reject);
    });
    asking.on("socket", bearResets).once("error", (error) => {
      if (!wasClosedMeanwhile(asking, error)) reject(error);
      else send(url, agent, key, method, path, body).then(resolve, reject);
    });
    asking.end(body && JSON.stringify(body));
  });
}
