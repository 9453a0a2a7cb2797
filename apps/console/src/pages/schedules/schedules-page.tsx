/** The schedules of tasks. */
import { PageHead } from "../../ui/panel.js";
import { ScheduleList } from "./schedule-list.js";

export function SchedulesPage() {
  return (
    <>
      <PageHead
        title="Schedules"
        about="Tasks at given times, one for each in the whole fleet: when they fire next, and how the last one ended."
      />
      <section aria-label="Schedules of tasks" className="rounded-xl border bg-surface">
        <ScheduleList />
      </section>
    </>
  );
}
