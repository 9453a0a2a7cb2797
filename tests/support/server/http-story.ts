/** Plays the examples of one section against a live server of its own. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { memory } from "../../../packages/leasehold/src/stores/memory/index.js";
import { manualEnv } from "../../../packages/leasehold/src/testing/index.js";
import { createApp, listen } from "../../../packages/leasehold-server/src/http/index.js";
import { type Example, type Section, type Shell, wrong } from "./http-document.js";
import { Names } from "./http-names.js";
import { OpenApi } from "./openapi.js";

/** Of the documents' examples: their times are of this day. */
const STARTS_MS = Date.UTC(2026, 3, 8, 10, 15, 30);
const DOCUMENTED_URL = /\b(?:http:\/\/)?localhost:4040\b/g;

/** The program that serves the app supplies the metrics: those of `leasehold serve` have tests of their own. */
const METRICS = `# HELP leasehold_lease_acquire_attempts_total Acquire requests to the store. The outcome \`held\` is contention.
# TYPE leasehold_lease_acquire_attempts_total counter
leasehold_lease_acquire_attempts_total{outcome="acquired"} 1842
leasehold_lease_acquire_attempts_total{outcome="held"} 97
`;

const { version } = JSON.parse(
  readFileSync(new URL("../../../packages/leasehold-server/package.json", import.meta.url), "utf8"),
) as { version: string };

/** Longer is a failure; the server's own clock stands still. */
const ANSWER_WITHIN_MS = 10_000;

export interface LiveServer {
  readonly url: string;
  readonly openApi: OpenApi;
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** On stores in memory, whose time stands still until it is moved. */
export async function openLiveServer(): Promise<LiveServer> {
  const env = manualEnv({ wallMs: STARTS_MS });
  const stores = await memory().open(env);
  const metrics = async () => METRICS;
  const app = createApp({
    ...stores,
    env,
    metrics,
    auth: "ifAny",
    version,
    limits: { lateMs: null },
  });
  const listening = await listen({ app, port: 0 });
  const { url } = listening;
  const { text } = await send(url, { method: "GET", path: "/openapi.json", headers: {}, body: "" });
  return {
    url,
    openApi: new OpenApi(JSON.parse(text)),
    advance: (ms) => env.clock.advance(ms),
    async close() {
      await listening.close();
      await stores.close();
    },
  };
}

/** @throws what differs, by the lines of the document */
export async function play({ steps }: Section, server: LiveServer): Promise<void> {
  const names = new Names();
  for (const step of steps) {
    if (step.kind === "later") await server.advance(step.ms);
    else if (step.kind === "shell") await playShell(step, server, names);
    else await playExample(step, server, names);
  }
}

async function playExample(
  { line, request, answer }: Example,
  { url, openApi }: LiveServer,
  names: Names,
): Promise<void> {
  const { method } = request;
  const path = names.toActual(request.path);
  const body = names.toActual(request.body);
  const headers = Object.fromEntries(
    [...request.headers].map(([name, value]) => [name, names.toActual(value)]),
  );
  const printedEvents = isStream(answer.headers.get("content-type")) ? eventsOf(answer.body) : null;
  const events = printedEvents?.length ?? 0;
  const actual = await send(url, { method, path, headers, body, events }).catch(
    (error: unknown) => {
      throw wrong(line, String(error));
    },
  );

  const found: string[] = [];
  const [mediaType = ""] = (actual.headers["content-type"] ?? "").split(";");
  const read = mediaType === "text/plain" ? (text: string) => text.trim() : parsed;
  if (actual.status !== answer.status) {
    found.push(`the status is ${actual.status}, printed is ${answer.status}: ${actual.text}`);
  } else if (printedEvents) {
    found.push(...names.compare(printedEvents, eventsOf(actual.text)));
  } else {
    const [printed, sent] = [read(answer.body, answer.line), read(actual.text, line)];
    found.push(...names.compare(printed, sent));
  }
  for (const [name, value] of answer.headers) {
    found.push(...names.compare(value, actual.headers[name], name, name));
  }

  const operation = openApi.find(method, path);
  const answered = printedEvents ? undefined : read(actual.text, line);
  if (operation) {
    found.push(...openApi.checkAnswer(operation, actual.status, mediaType, answered));
    // What is refused for its form need not have the form; everything else must.
    if (![400, 404, 413, 415, 422].includes(actual.status)) {
      found.push(...openApi.checkRequest(operation, path, headers, body));
    }
  } else if (actual.status === 404 || actual.status === 405) {
    found.push(...openApi.checkProblem(answered));
  } else {
    found.push(`${method} ${path} is not in /openapi.json`);
  }

  if (found.length > 0) throw wrong(line, `${method} ${request.path}\n  ${found.join("\n  ")}`);
}

/** Runs the command as a reader would, but reports its failures. */
async function playShell({ line, command, output }: Shell, server: LiveServer, names: Names) {
  const script = names.toActual(command).replaceAll(DOCUMENTED_URL, server.url);
  const printed = await bash(script).catch((error: unknown) => {
    throw wrong(line, String(error));
  });
  if (output === null) return;
  const found = names.compare(parsed(output, line), parsed(printed, line));
  if (found.length > 0) throw wrong(line, `the command's output\n  ${found.join("\n  ")}`);
}

/** What a script prints; rejects when one of its commands fails, curl also by an answer above 400. */
export function bash(script: string): Promise<string> {
  const prelude = 'set -euo pipefail; curl() { command curl -sS --fail-with-body "$@"; }';
  return new Promise((resolve, reject) => {
    execFile("bash", ["-c", `${prelude}\n${script}`], { timeout: 20_000 }, (error, out, err) => {
      if (error) reject(new Error(`${error.message}\n${out}${err}`));
      else resolve(out);
    });
  });
}

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** How many events to read of a stream before it is left. */
  readonly events?: number;
}
interface Received {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** By node:http, which sends the headers as they are given: also a length that is not the body's. */
function send(url: string, { method, path, headers, body, events = 0 }: Sent): Promise<Received> {
  const length = Buffer.byteLength(body);
  const type = { "content-type": "application/json", "content-length": length };
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${url}${path}`, {
      method,
      agent: false,
      headers: { ...(length > 0 && type), ...headers },
    });
    request.on("error", reject);
    let text = "";
    const timer = setTimeout(() => {
      request.destroy(new Error(`${method} ${path}: no (more) answer after "${text}"`));
    }, ANSWER_WITHIN_MS);
    request.on("close", () => clearTimeout(timer));
    request.on("response", (response) => {
      response.setEncoding("utf8");
      const done = () => {
        const { statusCode = 0, headers: received } = response;
        resolve({ status: statusCode, headers: received as Record<string, string>, text });
        request.destroy();
      };
      response.on("data", (chunk: string) => {
        text += chunk;
        if (isStream(response.headers["content-type"]) && eventsOf(text).length >= events) done();
      });
      response.on("end", done);
      response.on("error", reject);
    });
    if ("content-length" in headers) request.flushHeaders();
    request.end(body);
  });
}

function isStream(contentType: string | undefined): boolean {
  return contentType?.startsWith("text/event-stream") ?? false;
}

/** The whole events of a stream: what stands before an empty line and is no comment. */
function eventsOf(text: string): Record<string, unknown>[] {
  const whole = text.endsWith("\n") ? text : `${text}\n\n`;
  return whole
    .split("\n\n")
    .slice(0, -1)
    .map((event) => {
      const fields = event.split("\n").filter((line) => line !== "" && !line.startsWith(":"));
      return Object.fromEntries(
        fields.map((line) => {
          const [, name = "", value = ""] = /^(\w+): ?(.*)$/.exec(line) ?? [];
          return [name, name === "data" ? JSON.parse(value) : value];
        }),
      );
    })
    .filter((event) => Object.keys(event).length > 0);
}

function parsed(text: string, line: number): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw wrong(line, `the body is no JSON: ${text}`);
  }
}
