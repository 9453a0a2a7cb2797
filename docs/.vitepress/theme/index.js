import { inBrowser, onContentUpdated } from "vitepress";
import DefaultTheme from "vitepress/theme";
import { h } from "vue";
import Simulator from "./Simulator.vue";
import { showCurrentPage } from "./sidebar.js";
import TtlCalculator from "./TtlCalculator.vue";
import { followTabs, restoreTabs } from "./tabs.js";
import "./style.css";

/** @type {import("vitepress").Theme} */
export default {
  extends: DefaultTheme,
  Layout: {
    setup() {
      onContentUpdated(restoreTabs);
      onContentUpdated(showCurrentPage);
      if (inBrowser) followTabs();
      return () => h(DefaultTheme.Layout);
    },
  },
  enhanceApp({ app }) {
    app.component("Simulator", Simulator);
    app.component("TtlCalculator", TtlCalculator);
  },
};
