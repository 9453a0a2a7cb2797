/**
 * One PostgreSQL server for a whole test run, started when the first test asks for it: unit tests
 * alone never pay for it. This process owns it; the workers ask for its URL over a local socket.
 */
import { createServer } from "node:net";
import type { TestProject } from "vitest/node";
import { findEngine, type PostgresServer, startPostgres } from "./postgres-engine.js";

declare module "vitest" {
  interface ProvidedContext {
    postgres: { readonly askPort: number } | { readonly missing: string };
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env.TEST_POSTGRES_URL;
  if (!given) {
    const missing = await findEngine().then(
      () => null,
      (error: Error) => error.message.split("\n", 1)[0] ?? "unknown",
    );
    if (missing !== null) {
      project.provide("postgres", { missing });
      return async () => {};
    }
  }

  let server: Promise<PostgresServer> | undefined;
  const url = async () => {
    if (given) return given;
    server ??= startPostgres();
    return (await server).url;
  };
  const desk = createServer((socket) => {
    socket.on("error", () => {});
    url().then(
      (url) => socket.end(JSON.stringify({ url })),
      (error: Error) => socket.end(JSON.stringify({ error: error.message })),
    );
  });
  await new Promise<void>((resolve) => desk.listen(0, "127.0.0.1", resolve));
  const address = desk.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  project.provide("postgres", { askPort: address.port });
  return async () => {
    desk.close();
    await (await server)?.remove();
  };
}
