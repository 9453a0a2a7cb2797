import { PageHead } from "../../ui/panel.js";

export function EventsPage() {
  return <PageHead title="Events" />;
}
