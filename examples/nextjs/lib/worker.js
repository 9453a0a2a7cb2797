import { database, sendMail } from "./database.js";

const { leasehold } = await database().catch((error) => {
  console.error(error);
  // Next.js would go on and answer every request with 500. Started again, it may find the database.
  process.exit(1);
});
leasehold.tasks.work([
  sendMail.handle(({ order, to }) => console.log(`mail for order ${order} to ${to}`)),
]);
// Next.js would end the process at once, and a task that runs would be tried again after its lease has expired.
if (process.env.NEXT_MANUAL_SIG_HANDLE) {
  process.once("SIGTERM", () => leasehold.close().finally(() => process.exit()));
}
