/** Next.js calls this once, when the server starts: the place for a worker, in a process that stays (`next start`). */
export async function register() {
  if (process.env.NEXT_RUNTIME !== "nodejs") return;
  const { database, sendMail } = await import("./lib/database.js");
  const { leasehold } = await database();
  leasehold.tasks.work([
    sendMail.handle(({ order, to }) => console.log(`mail for order ${order} to ${to}`)),
  ]);
}
