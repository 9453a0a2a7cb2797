/** One PostgreSQL server for a whole test run. */
import type { TestProject } from "vitest/node";
import { openDesk } from "../runner/desk.js";
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
  const desk = await openDesk(url);
  project.provide("postgres", { askPort: desk.port });
  return async () => {
    desk.close();
    await (await server)?.remove();
  };
}
