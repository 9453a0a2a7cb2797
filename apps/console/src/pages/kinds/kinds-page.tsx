/** The published kinds of tasks. */
import { PageHead } from "../../ui/panel.js";
import { KindList } from "./kind-list.js";

export function KindsPage() {
  return (
    <>
      <PageHead
        title="Kinds"
        about="The published JSON Schemas of task data, one for each version of a kind. New tasks must match them."
      />
      <section aria-label="Published kinds" className="rounded-xl border bg-surface">
        <KindList />
      </section>
    </>
  );
}
