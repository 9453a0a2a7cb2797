import { PageHead } from "../../ui/panel.js";

export function TasksPage() {
  return <PageHead title="Tasks" />;
}
