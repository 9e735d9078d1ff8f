import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// Grafana's libraries are written for its own bundler: they name a router of another version, ask
// for `process.env`, and re-export types as if they were values.
export default defineConfig({
  base: './',
  plugins: [react()],
  define: { 'process.env.NODE_ENV': '"production"', 'process.env': '{}', global: 'globalThis' },
  resolve: {
    alias: { 'react-router-dom-v5-compat': 'react-router-dom' },
    dedupe: ['react', 'react-dom', 'rxjs', '@emotion/css', '@emotion/react', '@grafana/schema'],
  },
  build: {
    target: 'es2022',
    minify: false,
    chunkSizeWarningLimit: 100_000,
    rollupOptions: { shimMissingExports: true },
  },
});
