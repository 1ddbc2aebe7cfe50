from twigcast.__main__ import main

main()
