import { PageHead } from "../../ui/panel.js";

export function OverviewPage() {
  return <PageHead title="Overview" />;
}
