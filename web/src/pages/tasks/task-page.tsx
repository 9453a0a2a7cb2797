import { PageHead } from "../../ui/panel.js";

export function TaskPage() {
  return <PageHead title="Task" />;
}
