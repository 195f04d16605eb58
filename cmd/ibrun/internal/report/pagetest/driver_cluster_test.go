//go:build cluster

// Package pagetest opens the page that --report writes in a headless browser, and checks what the browser shows.
package pagetest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/skip"
)

// browser is one session of ChromeDriver (W3C WebDriver over HTTP).
type browser struct {
	t   *testing.T
	url string // of the session
	at  string // the tab that show opened last
}

// patience bounds every step of the browser.
const patience = 3 * time.Minute

var startedOn = regexp.MustCompile(`started successfully on port (\d+)`)

// open starts a browser; it ends with the test. Without one the test is
// skipped: CI installs chromium and chromium-driver before.
func open(t *testing.T) *browser {
	for _, program := range []string{"chromium", "chromedriver"} {
		if _, err := exec.LookPath(program); err != nil {
			skip.Because(t, "the page was not opened in a browser: no "+program+
				"; apt-get install chromium chromium-driver")
		}
	}
	driver := exec.Command("chromedriver", "--port=0")
	said, err := driver.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, driver.Start())
	t.Cleanup(func() {
		_ = driver.Process.Kill()
		_ = driver.Wait()
	})
	port := make(chan string, 1)
	go func() {
		defer close(port)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if m := startedOn.FindStringSubmatch(lines.Text()); m != nil {
				port <- m[1]
			}
		}
	}()
	b := &browser{t: t}
	select {
	case p, ok := <-port:
		require.True(t, ok, "chromedriver ended")
		b.url = "http://127.0.0.1:" + p + "/session"
	case <-time.After(patience):
		require.FailNow(t, "chromedriver says no port")
	}
	var session struct{ SessionID string }
	b.do(http.MethodPost, "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:loggingPrefs": map[string]string{"performance": "ALL"},
		"goog:chromeOptions": map[string]any{"args": []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
			"--disable-background-networking",
			"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
			"--window-size=1280,1600", "--user-data-dir=" + t.TempDir(),
			// No network: every request goes to a proxy that does not exist, loopback included.
			"--proxy-server=http://127.0.0.1:1", "--proxy-bypass-list=<-loopback>",
		}},
	}}}, &session)
	b.url += "/" + session.SessionID
	t.Cleanup(func() { b.do(http.MethodDelete, "", nil, nil) })
	return b
}

// tab opens a blank tab and goes there. The first tab of a browser shows a page of the
// browser's own, which loads what it likes, differently in each version.
func (b *browser) tab() {
	b.t.Helper()
	var made struct{ Handle string }
	b.do(http.MethodPost, "/window/new", map[string]any{"type": "tab"}, &made)
	b.do(http.MethodPost, "/window", map[string]any{"handle": made.Handle}, nil)
	b.at = made.Handle
}

// do is one command; what comes back is decoded into value.
func (b *browser) do(method, command string, body, value any) {
	b.t.Helper()
	var text []byte // none but with POST
	if method == http.MethodPost {
		var err error
		text, err = json.Marshal(body)
		require.NoError(b.t, err)
	}
	r, err := http.NewRequest(method, b.url+command, bytes.NewReader(text))
	require.NoError(b.t, err)
	answer, err := (&http.Client{Timeout: patience}).Do(r)
	require.NoError(b.t, err)
	defer answer.Body.Close()
	var got struct{ Value json.RawMessage }
	require.NoError(b.t, json.NewDecoder(answer.Body).Decode(&got))
	require.Equal(b.t, http.StatusOK, answer.StatusCode, "%s: %s", command, got.Value)
	if value != nil {
		require.NoError(b.t, json.Unmarshal(got.Value, value))
	}
}

// show opens a file in a tab of its own and returns the addresses of everything that was
// asked for there, and how many requests other tabs made meanwhile.
func (b *browser) show(name string) (asked []string, others int) {
	b.t.Helper()
	b.tab()
	b.requests()
	b.do(http.MethodPost, "/url", map[string]any{"url": "file://" + name}, nil)
	return b.requests()
}

// requests are those since the last call.
func (b *browser) requests() (asked []string, others int) {
	b.t.Helper()
	var entries []struct{ Message string }
	b.do(http.MethodPost, "/se/log", map[string]any{"type": "performance"}, &entries)
	for _, e := range entries {
		var m struct {
			Webview string // the tab's handle
			Message struct {
				Method string
				Params struct{ Request struct{ URL string } }
			}
		}
		require.NoError(b.t, json.Unmarshal([]byte(e.Message), &m))
		switch {
		case m.Message.Method != "Network.requestWillBeSent":
		case m.Webview == b.at:
			asked = append(asked, m.Message.Params.Request.URL)
		default:
			others++
		}
	}
	return asked, others
}

// script runs the body of a function in the page.
func (b *browser) script(body string, value any) {
	b.t.Helper()
	b.do(http.MethodPost, "/execute/sync", map[string]any{"script": body, "args": []any{}}, value)
}

// picture takes a screenshot, and returns the name of its file.
func (b *browser) picture() string {
	b.t.Helper()
	var text string
	b.do(http.MethodGet, "/screenshot", nil, &text)
	png, err := base64.StdEncoding.DecodeString(text)
	require.NoError(b.t, err)
	name := fmt.Sprintf("%s/page.png", b.t.TempDir())
	require.NoError(b.t, os.WriteFile(name, png, 0o600))
	return name
}
