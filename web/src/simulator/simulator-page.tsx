import { PageHead } from "../ui/panel.js";

export function SimulatorPage() {
  return <PageHead title="Simulator" />;
}
