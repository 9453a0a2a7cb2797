/** What this program does: a report that is made once a day, and mails, each of which is a task. */
import { defineTask, type Leasehold } from "leasehold";

const NIGHTLY = "nightly";
const nightly = defineTask(NIGHTLY);

/** A kind of task. A mail that fails is tried again after a second, and then less and less often. */
export const mail = defineTask<{ to: string }, { sent: string }>("mail", { maxAttempts: 5 });

/** Makes the report of a day once, however many processes ask for it, and however often. */
export async function makeReport(leasehold: Leasehold, day: string): Promise<string> {
  const report = await leasehold.once(`report:${day}`, { ttlMs: 60_000 }, async (lease) => {
    // Your work, in place of this. It should stop when lease.signal aborts. What it returns is
    // kept for later callers.
    return { rows: 3, token: lease.token };
  });
  return report.ran
    ? `the report of ${day} is made`
    : `the report of ${day} was made by ${report.by} at ${report.at}`;
}

/** Works on tasks, and makes the report each night. Every process does both. */
export async function start(
  leasehold: Leasehold,
  say: (line: string) => void = console.log,
  send: (to: string) => Promise<void> = async () => {},
): Promise<void> {
  leasehold.tasks.work([
    nightly.handle(async (_data, { task }) => {
      // The id of a scheduled task is the name of the schedule and the fire time.
      const day = task.id.slice(`${NIGHTLY}@`.length, `${NIGHTLY}@2026-11-26`.length);
      say(await makeReport(leasehold, day));
    }),
    mail.handle(async ({ to }) => {
      await send(to);
      say(`the mail to ${to} is sent`);
      return { sent: to };
    }),
  ]);
  await leasehold.tasks.schedule(NIGHTLY, {
    cron: "0 2 * * *",
    timeZone: "UTC",
    kind: nightly,
    data: null,
  });
}
