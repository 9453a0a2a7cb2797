/** The published kinds of tasks. */
import { PageHead } from "../../ui/panel.js";
import { KindList } from "./kind-list.js";

export function KindsPage() {
  return (
    <>
      <PageHead
        title="Kinds"
        about="What programs publish of the data of tasks: a JSON Schema for each version, which new tasks must match."
      />
      <section aria-label="Published kinds" className="rounded-xl border bg-surface">
        <KindList />
      </section>
    </>
  );
}
