/** Next.js calls this once, when the server starts: the place for a worker, in a process that stays (`next start`). */
export async function register() {
  if (process.env.NEXT_RUNTIME === "nodejs") await import("./lib/worker.js");
}
