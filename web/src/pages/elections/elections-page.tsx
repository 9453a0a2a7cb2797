import { PageHead } from "../../ui/panel.js";

export function ElectionsPage() {
  return <PageHead title="Elections" />;
}
