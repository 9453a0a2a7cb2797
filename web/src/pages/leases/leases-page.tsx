import { PageHead } from "../../ui/panel.js";

export function LeasesPage() {
  return <PageHead title="Leases" />;
}
