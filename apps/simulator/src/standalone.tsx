/** The simulator as a separate page, for any static host. With `?embedded`, it fits into a frame of another page. */
import { Icon, IconButton, ThemeProvider, useTheme } from "leasehold-ui";
import { createRoot } from "react-dom/client";
import "leasehold-ui/styles.css";
import { SimulatorPage } from "./simulator-page.js";

function ThemeButton() {
  const { dark, choose } = useTheme();
  return (
    <IconButton
      label={dark ? "Light theme" : "Dark theme"}
      onClick={() => choose(dark ? "light" : "dark")}
    >
      <Icon name={dark ? "sun" : "moon"} />
    </IconButton>
  );
}

const embedded = new URLSearchParams(location.search).has("embedded");

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <ThemeProvider>
      {embedded ? (
        <main className="p-2">
          <SimulatorPage embedded />
        </main>
      ) : (
        <main className="min-h-dvh px-4 py-5 sm:px-7 sm:py-7">
          <SimulatorPage aside={<ThemeButton />} />
        </main>
      )}
    </ThemeProvider>,
  );
}
