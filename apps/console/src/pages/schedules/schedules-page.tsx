/** The schedules of tasks. */
import { PageHead } from "leasehold-ui";
import { ScheduleList } from "./schedule-list.js";

export function SchedulesPage() {
  return (
    <>
      <PageHead
        title="Schedules"
        about="Rules that enqueue a task at each fire time, once in the whole fleet: the next fire times, and how the last task ended."
      />
      <section aria-label="Schedules of tasks" className="rounded-xl border bg-surface">
        <ScheduleList />
      </section>
    </>
  );
}
